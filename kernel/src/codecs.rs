//! Decompresses into one buffer that is reused from batch to batch.
//!
//! No declared size is trusted. The buffer grows only after it was filled with decompressed bytes, and never above the
//! limit. There are two exceptions: the last block of lz4, and snappy, where it grows to the most that the compressed
//! bytes can hold.
#![forbid(unsafe_code)]

use std::io::Read;

use zstd::zstd_safe;

use crate::error::Reason;

/// Default limit for the decompressed size of one batch. Kafka's brokers accept batches of 1 MiB by default.
pub const DEFAULT_LIMIT: usize = 256 << 20;
/// The highest limit that may be set: Arrow's 32-bit offsets must hold one batch and the rows before it.
pub const HIGHEST_LIMIT: usize = 1 << 30;

/// Initial size of the buffer. It is four times the compressed size if that is more, the usual compression ratio of
/// records, so that most batches never make the buffer grow.
const FIRST_SIZE: usize = 64 << 10;
/// The largest buffer kept between chunks: one huge batch must not hold its memory for the life of a worker.
const KEPT_SIZE: usize = 16 << 20;
/// A snappy element of 3 bytes produces at most 64 bytes.
const SNAPPY_GAIN: usize = 64;
const SNAPPY_ELEMENT: usize = 3;
pub(crate) const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\x00";
/// Magic, version and minimum compatible version.
const XERIAL_HEADER: usize = 16;
/// The header of a frame as the Java producer and librdkafka write it: version 1, independent blocks of at most 64 KiB,
/// no checksums, no content size; then the checksum of this header.
pub(crate) const LZ4_USUAL: &[u8; 7] = b"\x04\x22\x4d\x18\x60\x40\x82";
pub(crate) const LZ4_BLOCK: usize = 64 << 10;
/// Bit of a block's length: the block is not compressed.
pub(crate) const LZ4_STORED: u32 = 1 << 31;
/// ZSTD_error_dstSize_tooSmall, as the library returns it.
const ZSTD_OUTPUT_FULL: usize = 0usize.wrapping_sub(70);

pub struct Codecs {
    /// Kept at its full length, so that growth zeroes each byte once and not once per batch.
    buffer: Vec<u8>,
    limit: usize,
    snappy: snap::raw::Decoder,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

impl Codecs {
    pub fn new(limit: usize) -> Self {
        Codecs { buffer: Vec::new(), limit, snappy: snap::raw::Decoder::new(), zstd: None }
    }

    /// The first `length` bytes of the last decompressed batch.
    pub fn output(&self, length: usize) -> &[u8] {
        self.buffer.get(..length).unwrap_or_default()
    }

    /// Shrinks the buffer again after a huge batch.
    pub fn trim(&mut self) {
        if self.buffer.len() > KEPT_SIZE {
            self.buffer = Vec::new();
        }
    }

    /// Decompresses into the buffer. Returns the number of bytes filled.
    pub fn decompress(&mut self, codec: i16, input: &[u8]) -> Result<usize, Reason> {
        let first = FIRST_SIZE.max(input.len().saturating_mul(4)).min(self.limit);
        if self.buffer.len() < first {
            self.buffer.resize(first, 0);
        }
        match codec {
            1 => self.stream("gzip", flate2::bufread::MultiGzDecoder::new(input)),
            2 => self.snappy(input),
            3 => self.lz4(input),
            4 => self.zstd(input),
            other => Err(format!("unknown codec {other}").into()),
        }
    }

    fn over_limit(&self) -> Reason {
        format!("unpacks to more than the decompression limit of {} bytes", self.limit).into()
    }

    /// Doubles the full buffer, up to the limit.
    fn grow(&mut self) -> Result<(), Reason> {
        if self.buffer.len() >= self.limit {
            return Err(self.over_limit());
        }
        self.buffer.resize(self.buffer.len().saturating_mul(2).min(self.limit), 0);
        Ok(())
    }

    fn lz4(&mut self, input: &[u8]) -> Result<usize, Reason> {
        if let Some(filled) = self.lz4_blocks(input) {
            return Ok(filled);
        }
        let mut decoder = lz4_flex::frame::FrameDecoder::new(input);
        let filled = self.stream("lz4", &mut decoder)?;
        if !decoder.get_ref().is_empty() {
            return Err("lz4: bytes are left after the frame".into());
        }
        Ok(filled)
    }

    /// Decodes a frame with the usual header, block by block into the buffer. lz4_flex decodes any frame, but copies
    /// each block through zeroed buffers of its own: 5 ns of 73 per record of 100 bytes. Returns None if the frame is
    /// unusual, is malformed or does not fit; then lz4_flex decodes it or reports the error.
    fn lz4_blocks(&mut self, input: &[u8]) -> Option<usize> {
        let mut rest = input.strip_prefix(LZ4_USUAL)?;
        let mut filled = 0;
        loop {
            let (length, tail) = rest.split_first_chunk()?;
            let length = u32::from_le_bytes(*length);
            if length == 0 {
                return tail.is_empty().then_some(filled);
            }
            let (block, tail) = tail.split_at_checked((length & !LZ4_STORED) as usize)?;
            let end = filled + LZ4_BLOCK;
            while self.buffer.len() < end {
                self.grow().ok()?;
            }
            let room = self.buffer.get_mut(filled..end)?;
            let produced = if length & LZ4_STORED == 0 {
                lz4::block::decompress_to_buffer(block, Some(LZ4_BLOCK as i32), room).ok()?
            } else {
                room.get_mut(..block.len())?.copy_from_slice(block);
                block.len()
            };
            if produced == 0 {
                return None;
            }
            filled += produced;
            rest = tail;
        }
    }

    fn stream(&mut self, name: &str, mut decoder: impl Read) -> Result<usize, Reason> {
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() && filled < self.limit {
                self.grow()?;
            }
            // At the limit: an error only if the decoder produces one more byte.
            let mut probe = [0u8; 1];
            let at_limit = filled == self.limit;
            let room = if at_limit { &mut probe } else { self.buffer.get_mut(filled..).unwrap_or_default() };
            match decoder.read(room) {
                Ok(0) => return Ok(filled),
                Ok(_) if at_limit => return Err(self.over_limit()),
                Ok(produced) => filled += produced,
                Err(error) => return Err(format!("{name}: {error}").into()),
            }
        }
    }

    fn snappy(&mut self, input: &[u8]) -> Result<usize, Reason> {
        if !input.starts_with(XERIAL_MAGIC) {
            return self.snappy_block(input, 0);
        }
        let mut rest = input;
        let mut filled = 0;
        while !rest.is_empty() {
            // Java's writer repeats the header where streams were concatenated.
            if rest.starts_with(XERIAL_MAGIC) {
                rest = rest.get(XERIAL_HEADER..).ok_or("snappy: the header is cut short")?;
                continue;
            }
            let (length, tail) = rest.split_first_chunk().ok_or("snappy: a block length is cut short")?;
            let length = usize::try_from(i32::from_be_bytes(*length))
                .map_err(|_| "snappy: a block length is negative")?;
            let (block, tail) =
                tail.split_at_checked(length).ok_or("snappy: a block reaches past the end")?;
            filled = self.snappy_block(block, filled)?;
            rest = tail;
        }
        Ok(filled)
    }

    /// Appends one block at `filled`. Returns the new number of bytes filled.
    fn snappy_block(&mut self, block: &[u8], filled: usize) -> Result<usize, Reason> {
        let length = snap::raw::decompress_len(block).map_err(|error| format!("snappy: {error}"))?;
        if length.saturating_mul(SNAPPY_ELEMENT) > block.len().saturating_mul(SNAPPY_GAIN) {
            return Err(format!("snappy: {} bytes cannot unpack to {length}", block.len()).into());
        }
        let end = filled.saturating_add(length);
        if end > self.limit {
            return Err(self.over_limit());
        }
        while self.buffer.len() < end {
            self.grow()?;
        }
        let room = self.buffer.get_mut(filled..end).unwrap_or_default();
        let produced = self.snappy.decompress(block, room).map_err(|error| format!("snappy: {error}"))?;
        Ok(filled + produced)
    }

    /// Decompresses in one call over the whole buffer. A stream would allocate the window that the frame declares and
    /// copy out of it. Java's producer leaves the content size out of the frame, so if the buffer is too small, it is
    /// doubled and the call repeated. The buffer is reused, so that happens a few times in a decoder's life.
    fn zstd(&mut self, input: &[u8]) -> Result<usize, Reason> {
        loop {
            let context = match &mut self.zstd {
                Some(context) => context,
                empty => empty.insert(zstd_safe::DCtx::try_create().ok_or("zstd: out of memory")?),
            };
            match context.decompress(self.buffer.as_mut_slice(), input) {
                Ok(filled) => return Ok(filled),
                Err(ZSTD_OUTPUT_FULL) => self.grow()?,
                Err(code) => return Err(format!("zstd: {}", zstd_safe::get_error_name(code)).into()),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn lz4(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
        // Like Java's producer: a stream, which leaves the content size out of the frame.
        let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn snappy(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    pub(crate) fn xerial(bytes: &[u8], block: usize) -> Vec<u8> {
        let mut out = [&XERIAL_MAGIC[..], &1i32.to_be_bytes(), &1i32.to_be_bytes()].concat();
        for block in bytes.chunks(block) {
            let packed = snappy(block);
            out.extend((packed.len() as i32).to_be_bytes());
            out.extend(packed);
        }
        out
    }

    pub(crate) fn all(bytes: &[u8]) -> [(i16, Vec<u8>); 5] {
        [(1, gzip(bytes)), (2, snappy(bytes)), (2, xerial(bytes, 1000)), (3, lz4(bytes)), (4, zstd(bytes))]
    }

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * at / 7) as u8).collect()
    }

    #[test]
    fn every_codec_restores_its_input_and_grows_the_buffer() {
        for length in [0, 1, 5_000, 3 << 20] {
            let bytes = text(length);
            for (codec, packed) in all(&bytes) {
                let mut codecs = Codecs::new(DEFAULT_LIMIT);
                let filled = codecs.decompress(codec, &packed).unwrap();
                assert!(codecs.output(filled) == bytes, "codec {codec}, {length} bytes");
            }
        }
    }

    #[test]
    fn a_short_batch_after_a_long_one_shows_no_old_bytes() {
        let mut codecs = Codecs::new(DEFAULT_LIMIT);
        for bytes in [text(200_000), text(10)] {
            for (codec, packed) in all(&bytes) {
                let filled = codecs.decompress(codec, &packed).unwrap();
                assert!(codecs.output(filled) == bytes);
            }
        }
    }

    #[test]
    fn the_limit_is_the_largest_accepted_size() {
        let bytes = vec![7; 100_000];
        for (codec, packed) in all(&bytes) {
            let mut codecs = Codecs::new(bytes.len());
            assert_eq!(codecs.decompress(codec, &packed), Ok(bytes.len()));
            let mut codecs = Codecs::new(bytes.len() - 1);
            let reason = codecs.decompress(codec, &packed).unwrap_err();
            assert!(reason.contains("decompression limit of 99999 bytes"), "codec {codec}: {reason}");
            assert!(codecs.buffer.len() < bytes.len());
        }
    }

    #[test]
    fn a_declared_size_allocates_nothing() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0x07, 0x00, b'a'];
        let mut codecs = Codecs::new(HIGHEST_LIMIT);
        assert!(codecs.decompress(2, &huge).unwrap_err().contains("cannot unpack"));
        assert!(codecs.buffer.len() <= FIRST_SIZE);
    }

    #[test]
    fn garbage_and_truncated_input_fail_or_give_a_prefix() {
        let bytes = text(5_000);
        for (codec, packed) in all(&bytes) {
            let mut codecs = Codecs::new(DEFAULT_LIMIT);
            for length in 0..packed.len() {
                if let Ok(filled) = codecs.decompress(codec, &packed[..length]) {
                    assert!(bytes.starts_with(codecs.output(filled)), "codec {codec} cut to {length}");
                }
            }
            assert!(codecs.decompress(codec, &[0xa5; 100]).is_err(), "codec {codec}");
        }
    }

    #[test]
    fn gzip_members_and_joined_snappy_streams_are_read() {
        let mut codecs = Codecs::new(DEFAULT_LIMIT);
        let twice = [text(3_000), text(3_000)].concat();
        for (codec, packed) in
            [(1, gzip(&text(3_000))), (2, xerial(&text(3_000), 700)), (4, zstd(&text(3_000)))]
        {
            let filled = codecs.decompress(codec, &[packed.clone(), packed].concat()).unwrap();
            assert!(codecs.output(filled) == twice, "codec {codec}");
        }
    }

    /// As the Java producer writes it: a block that does not shrink is stored uncompressed.
    fn lz4_usual(bytes: &[u8]) -> Vec<u8> {
        let mut out = LZ4_USUAL.to_vec();
        for block in bytes.chunks(LZ4_BLOCK) {
            let packed = lz4_flex::block::compress(block);
            if packed.len() < block.len() {
                out.extend((packed.len() as u32).to_le_bytes());
                out.extend(packed);
            } else {
                out.extend((block.len() as u32 | LZ4_STORED).to_le_bytes());
                out.extend(block);
            }
        }
        [out, vec![0; 4]].concat()
    }

    fn lz4_by_the_crate(packed: &[u8]) -> Option<Vec<u8>> {
        let (mut decoder, mut out) = (lz4_flex::frame::FrameDecoder::new(packed), Vec::new());
        (decoder.read_to_end(&mut out).is_ok() && decoder.get_ref().is_empty()).then_some(out)
    }

    #[test]
    fn usual_lz4_frames_are_read_block_by_block() {
        let noise: Vec<_> = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for bytes in
            [text(0), text(1), text(LZ4_BLOCK), text(300_000), noise.clone(), [noise, text(99)].concat()]
        {
            let packed = lz4_usual(&bytes);
            assert_eq!(lz4_by_the_crate(&packed).as_ref(), Some(&bytes));
            let mut codecs = Codecs::new(DEFAULT_LIMIT);
            assert_eq!(codecs.decompress(3, &packed), Ok(bytes.len()));
            assert!(codecs.output(bytes.len()) == bytes);
            assert_eq!(codecs.lz4_blocks(&packed), Some(bytes.len()));
            // With a limit that fits the output but not a whole block, lz4_flex decodes the frame.
            let mut codecs = Codecs::new(bytes.len().max(1));
            assert_eq!(codecs.decompress(3, &packed), Ok(bytes.len()));
            assert!(codecs.output(bytes.len()) == bytes);
        }
    }

    #[test]
    fn both_lz4_decoders_give_the_same_result() {
        let good = lz4_usual(&text(700));
        let mut codecs = Codecs::new(DEFAULT_LIMIT);
        let mut usual = 0;
        let cut = (0..good.len()).map(|length| good[..length].to_vec());
        let longer = [[good.clone(), vec![0; 4]].concat(), [good.clone(), good.clone()].concat()];
        let flipped = (0..good.len() * 8).map(|bit| {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        });
        let empty_block = [&good[..good.len() - 4], &LZ4_STORED.to_le_bytes(), &[0; 4]].concat();
        for packed in cut.chain(longer).chain(flipped).chain([good.clone(), empty_block]) {
            let found = codecs.decompress(3, &packed).ok().map(|filled| codecs.output(filled).to_vec());
            assert_eq!(found, lz4_by_the_crate(&packed), "{packed:02x?}");
            usual += usize::from(codecs.lz4_blocks(&packed).is_some());
        }
        assert!(usual > 1);
    }

    /// The only input that the C library accepts and lz4_flex rejects.
    #[test]
    fn an_lz4_match_that_refers_to_itself_shows_nothing_of_the_batch_before() {
        let tail = [7; 20];
        for extra in [0u8, 200] {
            let mut codecs = Codecs::new(DEFAULT_LIMIT);
            codecs.decompress(3, &lz4_usual(&[0xaa; 1000])).unwrap();
            // Four literals, a match of 19 bytes or more at offset 0, and literals to the end.
            let block = [b"\x4fabcd\0\0", &[extra][..], b"\xf0\x05", &tail].concat();
            let length = (block.len() as u32).to_le_bytes();
            let packed = [LZ4_USUAL, &length[..], &block, &[0; 4]].concat();
            if let Ok(filled) = codecs.decompress(3, &packed) {
                let zeros = vec![0; 19 + usize::from(extra)];
                assert_eq!(codecs.output(filled), [&b"abcd"[..], &zeros, &tail].concat());
            }
        }
    }

    #[test]
    fn trimming_frees_only_a_large_buffer() {
        let mut codecs = Codecs::new(DEFAULT_LIMIT);
        codecs.decompress(4, &zstd(&vec![0; KEPT_SIZE + 1])).unwrap();
        codecs.trim();
        assert_eq!(codecs.buffer.len(), 0);
        codecs.decompress(4, &zstd(b"small")).unwrap();
        codecs.trim();
        assert_eq!(codecs.buffer.len(), FIRST_SIZE);
    }
}
