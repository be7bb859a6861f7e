//! Finds the end of a chunk from the batch headers alone, so that the next fetch request can be sent before the chunk
//! is decoded. Nothing is verified here; the decoder verifies the headers later.
#![forbid(unsafe_code)]

use crate::batch::{self, Front};

/// The offset after the last complete batch of `data`. Returns `start` if there is no complete batch, or if only
/// decoding can find the offset.
pub fn next_offset(data: &[u8], start: i64) -> i64 {
    let mut rest = data;
    let mut next = start;
    while let Ok(Front::Batch(header)) = batch::read_front(rest, false) {
        next = header.last_offset.saturating_add(1);
        rest = rest.get(header.size..).unwrap_or_default();
    }
    // Message sets of magic 0 and 1 do not give their last offset in front, so there is no answer for them.
    if matches!(batch::read_front(rest, false), Ok(Front::Legacy(_))) { start } else { next.max(start) }
}

#[cfg(test)]
mod tests {
    use super::next_offset;

    /// An empty batch that spans `span` offsets. A scan reads nothing else.
    fn batch(base: i64, span: i32) -> Vec<u8> {
        let mut bytes = vec![0; 61];
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[8..12].copy_from_slice(&49_i32.to_be_bytes());
        bytes[16] = 2;
        bytes[23..27].copy_from_slice(&(span - 1).to_be_bytes());
        bytes
    }

    #[test]
    fn the_last_complete_batch_decides() {
        let mut data = [batch(10, 5), batch(15, 3)].concat();
        assert_eq!(next_offset(&data, 12), 18);
        data.extend_from_slice(&batch(18, 4)[..40]);
        assert_eq!(next_offset(&data, 12), 18);
    }

    #[test]
    fn without_a_complete_batch_the_start_is_returned() {
        assert_eq!(next_offset(&[], 7), 7);
        assert_eq!(next_offset(&batch(7, 1)[..60], 7), 7);
    }

    #[test]
    fn old_messages_return_the_start() {
        let mut old = batch(9, 1);
        old[16] = 1;
        assert_eq!(next_offset(&[batch(7, 2), old].concat(), 7), 7);
    }
}
