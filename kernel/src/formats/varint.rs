//! Varints of Avro and Protobuf: seven bits per byte, lowest bits first.
#![forbid(unsafe_code)]

/// Decodes the varint at the front of `bytes`; returns it and the rest. None if the varint is longer than eight bytes,
/// or if there are too few bytes left to load eight: then the caller decodes byte by byte.
///
/// There is no branch per byte: the length of a number (a key, a timestamp) cannot be predicted.
#[inline(always)]
pub fn short(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const LAST: u64 = 0x8080_8080_8080_8080;
    if let [byte, rest @ ..] = bytes
        && *byte < 0x80
    {
        return Some((u64::from(*byte), rest));
    }
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let ends = !word & LAST;
    if ends == 0 {
        return None;
    }
    let length = ends.trailing_zeros() as usize / 8 + 1;
    // The bytes up to the last byte of the varint, without their continuation bits.
    let word = word & (ends ^ (ends - 1)) & !LAST;
    // Join neighbours, three times.
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    let word = (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4);
    Some((word, bytes.get(length..)?))
}

/// Zigzag decoding: the sign is the lowest bit.
#[inline(always)]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_up_to_eight_bytes_are_read_at_once() {
        for length in 1..=8 {
            for low in [0u64, 1, 0x55, 0x7f] {
                let mut bytes: Vec<u8> = (0..length).map(|at| 0x80 | (low as u8 ^ at as u8)).collect();
                bytes[length - 1] &= 0x7f;
                let expected = (0..length).map(|at| u64::from(bytes[at] & 0x7f) << (7 * at)).sum();
                bytes.extend([0xff; 8]);
                assert_eq!(short(&bytes), Some((expected, &[0xff; 8][..])));
            }
        }
    }

    #[test]
    fn longer_varints_and_the_last_bytes_are_left_to_the_caller() {
        assert_eq!(short(&[]), None);
        assert_eq!(short(&[5]), Some((5, &[][..])));
        assert_eq!(short(&[0x85, 1]), None);
        assert_eq!(short(&[0x80; 12]), None);
    }

    #[test]
    fn the_sign_is_the_lowest_bit() {
        assert_eq!([0, 1, 2, 3].map(unzigzag), [0, -1, 1, -2]);
        assert_eq!([u64::MAX, u64::MAX - 1].map(unzigzag), [i64::MIN, i64::MAX]);
    }
}
