"""One column of a protected Parquet table in S3, read by pandas.

Run it in any folder: `python parquet_column_s3.py`. It needs pandas, pyarrow, s3fs and moto, whose server plays S3 here.
"""

# %% A bucket. With a real one, `endpoint` is not needed, and the credentials are those of your environment.
import logging
import os
import tempfile

import fsspec
import numpy as np
import pandas as pd
from moto.server import ThreadedMotoServer

import phalanx

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
s3 = {"endpoint_url": f"http://{host}:{port}", "key": "example", "secret": "example"}
fsspec.filesystem("s3", **s3).mkdir("measurements")

# %% A key in the keyring. Here it is a new keyring; `phalanx key new work` makes such a key in yours.
keyring = tempfile.TemporaryDirectory()
os.environ["PHALANX_KEYRING"] = keyring.name + "/keys"
phalanx.Key.generate().store("work")

# %% `phalanx::` in front of a URL is all that it takes. The name of the key is in the options, and never the key.
options = {"phalanx": {"key": "work"}, "s3": s3}
table = pd.DataFrame({f"sensor{i}": np.random.default_rng(i).random(200_000) for i in range(20)})
table.to_parquet("phalanx::s3://measurements/table.parquet.phx", storage_options=options)

column = pd.read_parquet("phalanx::s3://measurements/table.parquet.phx", columns=["sensor7"], storage_options=options)
print(column.describe().loc[["count", "mean", "max"]])

# %% What lies in S3 is protected, and a little longer. Sizes are those of the plaintext.
fs, path = fsspec.url_to_fs("phalanx::s3://measurements/table.parquet.phx", **options)
info = fs.info(path)
print(f"{path}: {info['size']:,} bytes, in S3 {info['stored_size']:,}")
print("in S3 it begins with", fsspec.filesystem("s3", **s3).cat_file(path, start=0, end=8))

# %% With another key, nothing can be read.
try:
    other = {"phalanx": {"key": phalanx.Key.generate()}, "s3": s3}
    pd.read_parquet("phalanx::s3://measurements/table.parquet.phx", storage_options=other)
except phalanx.WrongKeyError as error:
    print("with another key:", error)
server.stop()
keyring.cleanup()
