//! Reads one column of a protected Parquet file through an object store, and fetches only the chunks that hold it.
//!
//! The store is one in memory. Any other of the crate `object_store` does as well: S3, Google Cloud Storage, Azure.

#![expect(deprecated, reason = "parquet 60.1 has no other reader of an ObjectStore")]

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Float64Array, Int64Array, RecordBatch, StringArray};
use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_writer::ArrowWriter;
use parquet::arrow::async_reader::{ParquetObjectReader, ParquetRecordBatchStreamBuilder};
use parquet::arrow::ProjectionMask;
use phalanx_core::{ChunkSize, KdfLimit, NewFile, Opener, Recipient, Roster, SecretKey, Sink, Source, Suite};
use phalanx_store::Plaintext;
use std::error::Error;
use std::sync::Arc;

const ROWS: usize = 500_000;

/// A table with three columns, as the bytes of a Parquet file.
fn table() -> Result<Vec<u8>, Box<dyn Error>> {
    let id = Int64Array::from_iter_values(0..ROWS as i64);
    let price = Float64Array::from_iter_values((0..ROWS).map(|row| (row % 1000) as f64 / 10.0));
    let note = StringArray::from_iter_values((0..ROWS).map(|row| format!("a long note about the row {row}")));
    let columns: [(&str, Arc<dyn arrow_array::Array>); 3] =
        [("id", Arc::new(id)), ("price", Arc::new(price)), ("note", Arc::new(note))];
    let batch = RecordBatch::try_from_iter(columns)?;
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let key = SecretKey::random()?;
    // Small chunks make small ranges cheap.
    let chunks = ChunkSize::new(64 << 10).ok_or("no size of chunks")?;
    let new = NewFile::with_chunk_size(Suite::default(), chunks, &[Recipient::key(&key)])?;
    let (table, mut protected) = (table()?, Vec::new());
    new.protect(&Roster::cpu(), Source::stream(&table[..]), Sink::stream(&mut protected), &())?;

    let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    bucket.put(&Path::from("prices.parquet.phx"), protected.into()).await?;

    // From here on it is an object store like any other.
    let store: Arc<dyn ObjectStore> = Arc::new(Plaintext::new(bucket, Opener::new(key, KdfLimit::default())));
    let reader = ParquetObjectReader::new(store, Path::from("prices.parquet"));
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
    let price = ProjectionMask::columns(builder.parquet_schema(), ["price"]);
    let batches: Vec<RecordBatch> = builder.with_projection(price).build()?.try_collect().await?;
    let sum: f64 = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Float64Type>().values()).sum();
    println!("{ROWS} prices, their sum is {sum:.1}");
    Ok(())
}
