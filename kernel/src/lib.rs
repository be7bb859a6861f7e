//! Bytes of a Kafka fetch response in, Arrow columns (or their rows as messages) out, and nothing else.
//!
//! ```text
//! ffi ─┬> decoder ─┬─────> batch    header of a record batch, and every check that needs no record
//!      │           ├─────> txn      which producers' transactions are aborted at this point
//!      │           ├─────> codecs   gzip, snappy, lz4, zstd into one reused buffer, with a limit
//!      │           ├─────> record   varints, records, headers
//!      │           └─────> columns  only the Arrow columns asked for
//!      ├> messages         the rows of a finished batch, one by one
//!      ├> formats          a column of bytes as a column of a type
//!      └> scan             the offset after a chunk, by its headers alone
//! ```
//!
//! Everything below `ffi` is safe Rust that knows no Python. The bytes are hostile: whatever they say, a decode ends in
//! rows or in [`error::Corrupt`], and memory grows only with bytes that are really there.
#![deny(unsafe_code)]

pub mod batch;
pub mod codecs;
pub mod columns;
pub mod decoder;
pub mod error;
pub mod formats;
pub mod messages;
pub mod record;
pub mod scan;
pub mod txn;

#[cfg(test)]
mod forge;

#[cfg(feature = "extension-module")]
#[allow(unsafe_code)]
mod ffi;

// Not for the tests and the fuzz targets: their own allocator finds what is read past its end. Cargo.toml says why.
#[cfg(feature = "extension-module")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
