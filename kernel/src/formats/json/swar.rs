//! Scans eight bytes at a time in one integer register. The first byte is the lowest.

/// A one in each byte of a word.
const ONES: u64 = u64::MAX / 255;

/// The high bit of each byte in `word` that is not a digit.
#[inline(always)]
pub fn non_digits(word: u64) -> u64 {
    let value = word ^ (ONES * b'0' as u64);
    (((value & (ONES * 0x7f)) + ONES * (0x80 - 10)) | value) & (ONES * 0x80)
}

/// The high bit of the first byte in `word` that ends a run of plain characters: a quote, a backslash or a control
/// character. Bits of later bytes may be set too.
#[inline(always)]
pub fn special_bytes(word: u64) -> u64 {
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}
