//! The Rust kernel: decodes the bytes of a Kafka fetch response into Arrow columns, or into messages, one per row. And
//! the way back: encodes Arrow columns into record batches for produce requests.
//!
//! ```text
//! ffi ─┬> decoder ─┬─────> batch         the header of a record batch, and all checks that need no record
//!      │           ├─────> transactions  which producers have an aborted transaction at this point
//!      │           ├─────> codecs        gzip, snappy, lz4 and zstd into one reused buffer, with a limit
//!      │           ├─────> record        varints, records, record headers
//!      │           └─────> columns       builds the selected Arrow columns
//!      ├> messages         reads the rows of a finished batch one by one
//!      ├> encoder          rows into record batches: partitions, batches, codecs, sequences
//!      ├> formats          decodes a column of bytes into a typed column: text, JSON, Avro, Protobuf
//!      └> scan             finds the offset after a chunk from the batch headers alone
//! ```
//!
//! `error` holds the errors of record batches, and `test_batches` builds batches for the tests.
//!
//! Only `ffi` knows Python and only `ffi` has `unsafe` code. The kernel does not trust its input: a decode returns rows
//! or [`error::Corrupt`], an encode returns batches or [`encoder::unwritable::Unwritable`], and memory grows only with the
//! bytes that are there.
#![deny(unsafe_code)]

pub mod batch;
pub mod codecs;
pub mod columns;
pub mod decoder;
pub mod encoder;
pub mod error;
pub mod formats;
pub mod messages;
pub mod record;
pub mod scan;
pub mod transactions;

#[cfg(test)]
mod test_batches;

#[cfg(feature = "extension-module")]
#[allow(unsafe_code)]
mod ffi;

// Tests and fuzz targets use the default allocator, under which sanitizers find reads past the end. Cargo.toml gives
// the reason for this one.
#[cfg(feature = "extension-module")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
