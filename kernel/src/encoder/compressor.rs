//! Compresses the records of a batch, in the framing that Kafka's Java client writes.
#![forbid(unsafe_code)]

use flate2::{Compress, Compression, FlushCompress, Status};
use lz4::block::{CompressionMode, compress_bound, compress_to_buffer};
use zstd::zstd_safe::{self, CCtx, CParameter};

use crate::codecs::{LZ4_BLOCK, LZ4_STORED, LZ4_USUAL, XERIAL_MAGIC};

/// Block size of xerial snappy, as in Java.
const SNAPPY_BLOCK: usize = 32 << 10;
/// Java's producer takes this level of lz4 for the fast compressor, and any other for the slow one.
const LZ4_FAST_LEVEL: i32 = 9;
const ZSTD_LEVEL: i32 = 3;
const GZIP_WINDOW_BITS: u8 = 15;
/// The largest buffer kept between batches.
const KEPT_SIZE: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The lowest and the highest level, as in Kafka's configuration.
    fn levels(self) -> Option<(i32, i32)> {
        match self {
            Codec::None | Codec::Snappy => None,
            Codec::Gzip => Some((1, 9)),
            Codec::Lz4 => Some((1, 17)),
            Codec::Zstd => Some((-131_072, 22)),
        }
    }
}

/// A codec and its level, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    codec: Codec,
    level: Option<i32>,
}

impl Compressed {
    pub fn new(name: &str, level: Option<i32>) -> Result<Self, String> {
        let codec = Codec::ALL.into_iter().find(|codec| codec.name() == name).ok_or_else(|| {
            format!("no compression is called {name:?}: use none, gzip, snappy, lz4 or zstd")
        })?;
        match (level, codec.levels()) {
            (Some(level), None) => Err(format!("compression {name} has no levels, and level is {level}")),
            (Some(level), Some((lowest, highest))) if !(lowest..=highest).contains(&level) => {
                Err(format!("the level of {name} must be between {lowest} and {highest}, not {level}"))
            }
            _ => Ok(Compressed { codec, level }),
        }
    }

    pub fn codec(self) -> Codec {
        self.codec
    }
}

enum Engine {
    None,
    Gzip(Box<Compress>),
    Snappy(Box<snap::raw::Encoder>),
    Lz4(CompressionMode),
    Zstd(CCtx<'static>),
}

/// Compresses into one buffer that is reused from batch to batch.
pub struct Compressor {
    engine: Engine,
    /// Kept at its full length, so that growth zeroes each byte once and not once per batch.
    buffer: Vec<u8>,
}

impl Compressor {
    pub fn new(compressed: Compressed) -> Result<Self, String> {
        let level = compressed.level;
        let engine = match compressed.codec {
            Codec::None => Engine::None,
            Codec::Gzip => {
                let level = level.map_or_else(Compression::default, |level| Compression::new(level as u32));
                Engine::Gzip(Box::new(Compress::new_gzip(level, GZIP_WINDOW_BITS)))
            }
            Codec::Snappy => Engine::Snappy(Box::new(snap::raw::Encoder::new())),
            Codec::Lz4 => Engine::Lz4(match level {
                None | Some(LZ4_FAST_LEVEL) => CompressionMode::DEFAULT,
                Some(level) => CompressionMode::HIGHCOMPRESSION(level),
            }),
            Codec::Zstd => {
                let mut context = CCtx::try_create().ok_or("zstd: out of memory")?;
                context
                    .set_parameter(CParameter::CompressionLevel(level.unwrap_or(ZSTD_LEVEL)))
                    .map_err(zstd_error)?;
                Engine::Zstd(context)
            }
        };
        Ok(Compressor { engine, buffer: Vec::new() })
    }

    /// A batch of these records: `header` bytes of room, then the compressed records. None if there is no compression.
    pub fn compress(&mut self, header: usize, records: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let Compressor { engine, buffer } = self;
        let end = match engine {
            Engine::None => return Ok(None),
            Engine::Gzip(stream) => gzip(stream, records, buffer, header)?,
            Engine::Snappy(encoder) => snappy(encoder, records, buffer, header)?,
            Engine::Lz4(mode) => lz4(*mode, records, buffer, header)?,
            Engine::Zstd(context) => {
                let room = room(buffer, header, zstd_safe::compress_bound(records.len()));
                header + context.compress2(room, records).map_err(zstd_error)?
            }
        };
        let batch = buffer.get(..end).map(<[u8]>::to_vec);
        if buffer.len() > KEPT_SIZE {
            *buffer = Vec::new();
        }
        Ok(batch)
    }
}

fn zstd_error(code: usize) -> String {
    format!("zstd: {}", zstd_safe::get_error_name(code))
}

/// At least `length` bytes of the buffer, from `at` on.
fn room(buffer: &mut Vec<u8>, at: usize, length: usize) -> &mut [u8] {
    let end = at + length;
    if buffer.len() < end {
        buffer.resize(end, 0);
    }
    buffer.get_mut(at..).unwrap_or_default()
}

fn put(buffer: &mut Vec<u8>, at: usize, bytes: &[u8]) -> usize {
    if let Some(room) = room(buffer, at, bytes.len()).get_mut(..bytes.len()) {
        room.copy_from_slice(bytes);
    }
    at + bytes.len()
}

fn gzip(stream: &mut Compress, records: &[u8], buffer: &mut Vec<u8>, header: usize) -> Result<usize, String> {
    stream.reset();
    let mut end = header;
    loop {
        let taken = stream.total_in() as usize;
        let rest = records.get(taken..).unwrap_or_default();
        let before = stream.total_out();
        let status = stream
            .compress(rest, room(buffer, end, rest.len() / 2 + 1024), FlushCompress::Finish)
            .map_err(|error| format!("gzip: {error}"))?;
        end += (stream.total_out() - before) as usize;
        if status == Status::StreamEnd {
            return Ok(end);
        }
    }
}

/// Xerial's framing: a header, then blocks with their lengths.
fn snappy(
    encoder: &mut snap::raw::Encoder,
    records: &[u8],
    buffer: &mut Vec<u8>,
    header: usize,
) -> Result<usize, String> {
    let mut end = put(buffer, header, XERIAL_MAGIC);
    end = put(buffer, end, &1i32.to_be_bytes());
    end = put(buffer, end, &1i32.to_be_bytes());
    for block in records.chunks(SNAPPY_BLOCK) {
        let room = room(buffer, end + 4, snap::raw::max_compress_len(block.len()));
        let length = encoder.compress(block, room).map_err(|error| format!("snappy: {error}"))?;
        put(buffer, end, &(length as u32).to_be_bytes());
        end += 4 + length;
    }
    Ok(end)
}

/// A frame like Java's: independent blocks of 64 KiB, no checksums. A block that does not shrink is stored.
fn lz4(mode: CompressionMode, records: &[u8], buffer: &mut Vec<u8>, header: usize) -> Result<usize, String> {
    let failed = |error| format!("lz4: {error}");
    let bound = compress_bound(LZ4_BLOCK).map_err(failed)?;
    let mut end = put(buffer, header, LZ4_USUAL);
    for block in records.chunks(LZ4_BLOCK) {
        let room = room(buffer, end + 4, bound);
        let length = compress_to_buffer(block, Some(mode), false, room).map_err(failed)?;
        if length < block.len() {
            put(buffer, end, &(length as u32).to_le_bytes());
            end += 4 + length;
        } else {
            end = put(buffer, end, &(block.len() as u32 | LZ4_STORED).to_le_bytes());
            end = put(buffer, end, block);
        }
    }
    Ok(put(buffer, end, &[0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::{Codecs, DEFAULT_LIMIT};

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * at / 7) as u8).collect()
    }

    fn noise(length: usize) -> Vec<u8> {
        (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    fn round_trip(compressed: Compressed, inputs: &[Vec<u8>]) {
        let mut compressor = Compressor::new(compressed).unwrap();
        let mut codecs = Codecs::new(DEFAULT_LIMIT);
        for bytes in inputs {
            let batch = compressor.compress(61, bytes).unwrap().unwrap();
            let filled = codecs.decompress(compressed.codec() as i16, &batch[61..]).unwrap();
            assert!(codecs.output(filled) == bytes, "{compressed:?}, {} bytes", bytes.len());
        }
    }

    #[test]
    fn every_codec_is_read_back_with_one_reused_compressor() {
        let inputs = [text(1), noise(300_000), text(7), text(64 << 10), text(200_000), noise(32 << 10)];
        for codec in &Codec::ALL[1..] {
            round_trip(Compressed::new(codec.name(), None).unwrap(), &inputs);
        }
    }

    #[test]
    fn every_level_is_read_back_and_others_are_refused() {
        let inputs = [text(70_000), noise(3_000)];
        for (name, levels) in [("gzip", 1..=9), ("lz4", 1..=17), ("zstd", -7..=22)] {
            for level in levels.clone() {
                round_trip(Compressed::new(name, Some(level)).unwrap(), &inputs);
            }
            for level in [*levels.end() + 1, -131_073] {
                assert!(Compressed::new(name, Some(level)).unwrap_err().contains("must be between"));
            }
        }
        assert!(Compressed::new("snappy", Some(1)).unwrap_err().contains("no levels"));
        assert!(Compressed::new("lzma", None).unwrap_err().contains("lzma"));
    }

    #[test]
    fn higher_levels_compress_more() {
        let lines: Vec<u8> =
            (0..5_000).flat_map(|at| format!("user-{};", at * 7919 % 1013).into_bytes()).collect();
        for (name, low, high) in [("gzip", 1, 9), ("lz4", 9, 12), ("zstd", 1, 19)] {
            let size = |level| {
                let compressed = Compressed::new(name, Some(level)).unwrap();
                Compressor::new(compressed).unwrap().compress(0, &lines).unwrap().unwrap().len()
            };
            assert!(size(high) < size(low), "{name}");
        }
    }
}
