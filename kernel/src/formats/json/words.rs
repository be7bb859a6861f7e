//! Eight bytes at a time, in one word; the first of them is the lowest.

/// One in each byte of a word.
const ONES: u64 = u64::MAX / 255;

/// The high bit of each byte in `word` that is no digit.
#[inline(always)]
pub fn non_digits(word: u64) -> u64 {
    let value = word ^ (ONES * b'0' as u64);
    (((value & (ONES * 0x7f)) + ONES * (0x80 - 10)) | value) & (ONES * 0x80)
}

/// The high bit of the first byte in `word` that may not just stand in a string, a quote, a backslash or a control
/// character, and perhaps of some behind it.
#[inline(always)]
pub fn special_bytes(word: u64) -> u64 {
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}
