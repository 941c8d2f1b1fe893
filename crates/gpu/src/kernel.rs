//! The kernels' source, and the PTX that is made from it.

#[cfg(feature = "papers")]
use std::sync::OnceLock;

/// Kernels that are compiled and loaded together. A driver takes seconds to compile a large module, so each is as small
/// as its use allows. Protecting a file takes [`Module::AesBitsliceTiles`] and one module of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Module {
    /// AES-CTR in bit planes, without tables, with counter caching: files.
    AesBitsliceTiles,
    /// AES-CTR in bit planes where all threads of a group have the same key: short files, and long messages.
    AesBitslice,
    /// AES-CTR in bit planes where each thread may have its own key: short messages.
    AesBitsliceKeys,
    /// The other kernels in bit planes: AES-ECB, AES-CTR of one run of data, AES-CTR with keys expanded on the device.
    #[cfg(feature = "papers")]
    AesBitslicePapers,
    /// AES with T0 alone, in 32 copies.
    #[cfg(feature = "papers")]
    AesTable1,
    /// AES with four tables, in 8 copies.
    #[cfg(feature = "papers")]
    AesTable4,
    /// AES with four tables, in 32 copies.
    #[cfg(feature = "papers")]
    AesTable4Wide,
    /// SHA3-256 of slices.
    Sha3,
    /// TurboSHAKE256 of slices.
    TurboShake,
    /// KMAC256 of keys.
    #[cfg(feature = "papers")]
    Kmac,
    /// MD5 of keys.
    #[cfg(feature = "papers")]
    Md5,
}

impl Module {
    /// All modules.
    pub const ALL: [Module; if cfg!(feature = "papers") { 11 } else { 5 }] = [
        Module::AesBitsliceTiles,
        Module::AesBitslice,
        Module::AesBitsliceKeys,
        #[cfg(feature = "papers")]
        Module::AesBitslicePapers,
        #[cfg(feature = "papers")]
        Module::AesTable1,
        #[cfg(feature = "papers")]
        Module::AesTable4,
        #[cfg(feature = "papers")]
        Module::AesTable4Wide,
        Module::Sha3,
        Module::TurboShake,
        #[cfg(feature = "papers")]
        Module::Kmac,
        #[cfg(feature = "papers")]
        Module::Md5,
    ];

    /// The name of its PTX file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Module::AesBitsliceTiles => "aes_bitslice_tiles",
            Module::AesBitslice => "aes_bitslice",
            Module::AesBitsliceKeys => "aes_bitslice_keys",
            #[cfg(feature = "papers")]
            Module::AesBitslicePapers => "aes_bitslice_papers",
            #[cfg(feature = "papers")]
            Module::AesTable1 => "aes_table1",
            #[cfg(feature = "papers")]
            Module::AesTable4 => "aes_table4",
            #[cfg(feature = "papers")]
            Module::AesTable4Wide => "aes_table4_wide",
            Module::Sha3 => "sha3",
            Module::TurboShake => "turboshake",
            #[cfg(feature = "papers")]
            Module::Kmac => "kmac",
            #[cfg(feature = "papers")]
            Module::Md5 => "md5",
        }
    }

    /// The number of tables, and the binary logarithm of the number of copies of each. (0, 0) without tables.
    pub(crate) fn tables(self) -> (u32, u32) {
        match self {
            #[cfg(feature = "papers")]
            Module::AesTable1 => (1, 5),
            #[cfg(feature = "papers")]
            Module::AesTable4 => (4, 3),
            #[cfg(feature = "papers")]
            Module::AesTable4Wide => (4, 5),
            _ => (0, 0),
        }
    }

    /// The local memory that the tables take, in bytes. A launch must reserve it.
    #[must_use]
    pub fn table_bytes(self) -> u32 {
        let (tables, copies_log) = self.tables();
        (tables * 1024) << copies_log
    }

    /// The whole source. It is plain C, CUDA C and OpenCL C at the same time.
    #[must_use]
    pub fn source(self) -> String {
        let platform = include_str!("../kernels/platform.h");
        let aes = include_str!("../kernels/aes.h");
        let sbox = include_str!("../kernels/aes_sbox.h");
        let planes = include_str!("../kernels/aes_planes.h");
        #[cfg(feature = "papers")]
        let expand = include_str!("../kernels/aes_expand.h");
        let keccak = include_str!("../kernels/keccak.h");
        match self {
            Module::AesBitsliceTiles => {
                let tile = include_str!("../kernels/aes_tile.h");
                [platform, aes, sbox, planes, tile, include_str!("../kernels/aes_bitslice_tiles.c")].concat()
            }
            Module::AesBitslice => [platform, aes, sbox, planes, include_str!("../kernels/aes_bitslice.c")].concat(),
            Module::AesBitsliceKeys => {
                [platform, aes, sbox, planes, include_str!("../kernels/aes_bitslice_keys.c")].concat()
            }
            #[cfg(feature = "papers")]
            Module::AesBitslicePapers => {
                [platform, aes, sbox, expand, planes, include_str!("../kernels/aes_bitslice_papers.c")].concat()
            }
            #[cfg(feature = "papers")]
            Module::AesTable1 | Module::AesTable4 | Module::AesTable4Wide => {
                let (tables, copies_log) = self.tables();
                let parameters = format!("#define TABLES {tables}\n#define COPIES_LOG {copies_log}\n");
                [platform, aes, sbox, expand, &parameters, include_str!("../kernels/aes_table.c")].concat()
            }
            Module::Sha3 => [platform, keccak, include_str!("../kernels/sha3.c")].concat(),
            Module::TurboShake => [platform, keccak, include_str!("../kernels/turboshake.c")].concat(),
            #[cfg(feature = "papers")]
            Module::Kmac => [platform, keccak, include_str!("../kernels/kmac.c")].concat(),
            #[cfg(feature = "papers")]
            Module::Md5 => [platform, include_str!("../kernels/md5.c")].concat(),
        }
    }

    /// The PTX that `scripts/make-ptx` made from the source. That of the papers' modules is compressed in the program,
    /// because only the laboratory loads it.
    #[must_use]
    pub fn ptx(self) -> &'static str {
        match self {
            Module::AesBitsliceTiles => include_str!("../ptx/aes_bitslice_tiles.ptx"),
            Module::AesBitslice => include_str!("../ptx/aes_bitslice.ptx"),
            Module::AesBitsliceKeys => include_str!("../ptx/aes_bitslice_keys.ptx"),
            #[cfg(feature = "papers")]
            Module::AesBitslicePapers => self.unpacked(include_bytes!("../ptx/aes_bitslice_papers.ptx.zlib")),
            #[cfg(feature = "papers")]
            Module::AesTable1 => self.unpacked(include_bytes!("../ptx/aes_table1.ptx.zlib")),
            #[cfg(feature = "papers")]
            Module::AesTable4 => self.unpacked(include_bytes!("../ptx/aes_table4.ptx.zlib")),
            #[cfg(feature = "papers")]
            Module::AesTable4Wide => self.unpacked(include_bytes!("../ptx/aes_table4_wide.ptx.zlib")),
            Module::Sha3 => include_str!("../ptx/sha3.ptx"),
            Module::TurboShake => include_str!("../ptx/turboshake.ptx"),
            #[cfg(feature = "papers")]
            Module::Kmac => self.unpacked(include_bytes!("../ptx/kmac.ptx.zlib")),
            #[cfg(feature = "papers")]
            Module::Md5 => self.unpacked(include_bytes!("../ptx/md5.ptx.zlib")),
        }
    }

    /// The PTX that was compressed. Only the first call for a module unpacks it.
    #[cfg(feature = "papers")]
    fn unpacked(self, packed: &[u8]) -> &'static str {
        static TEXTS: [OnceLock<String>; Module::ALL.len()] = [const { OnceLock::new() }; Module::ALL.len()];
        TEXTS[self as usize].get_or_init(|| {
            let bytes = miniz_oxide::inflate::decompress_to_vec_zlib(packed).expect("`make-ptx` compressed it");
            String::from_utf8(bytes).expect("PTX is text")
        })
    }
}

/// A kernel: one entry of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The module that it is in.
    pub module: Module,
    /// Its name in the module.
    pub entry: &'static str,
}
