//! The framing of Confluent's serializers: a zero byte and the schema id, big-endian, before the payload.
#![forbid(unsafe_code)]

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Confluent,
}

const MAGIC: u8 = 0;

impl Framing {
    /// Splits framed bytes into schema id, if any, and payload.
    #[inline]
    pub fn cut(self, value: &[u8]) -> Result<(Option<u32>, &[u8]), &'static str> {
        match (self, value) {
            (Framing::None, payload) => Ok((None, payload)),
            (Framing::Confluent, &[MAGIC, a, b, c, d, ref payload @ ..]) => {
                Ok((Some(u32::from_be_bytes([a, b, c, d])), payload))
            }
            (Framing::Confluent, &[MAGIC, ..] | &[]) => Err("too short for the framing of a schema registry"),
            (Framing::Confluent, _) => {
                Err("does not begin with the zero byte of a schema registry's framing")
            }
        }
    }
}

/// The bytes before a payload: of a schema id, or none.
pub fn frame(schema_id: Option<u32>) -> Vec<u8> {
    match schema_id {
        None => Vec::new(),
        Some(id) => [&[MAGIC][..], &id.to_be_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_cut_off() {
        assert_eq!(Framing::Confluent.cut(&[0, 0, 0, 1, 2, 7, 8]), Ok((Some(258), &[7, 8][..])));
        assert_eq!(Framing::Confluent.cut(&[0, 0, 0, 0, 9]), Ok((Some(9), &[][..])));
        assert_eq!(Framing::None.cut(&[0, 0, 0, 1, 2]), Ok((None, &[0, 0, 0, 1, 2][..])));
    }

    #[test]
    fn a_frame_is_cut_off_again() {
        assert_eq!(Framing::Confluent.cut(&frame(Some(70_000))), Ok((Some(70_000), &[][..])));
        assert!(frame(None).is_empty());
    }

    #[test]
    fn bytes_without_framing_are_refused() {
        assert!(Framing::Confluent.cut(&[]).is_err_and(|why| why.contains("short")));
        assert!(Framing::Confluent.cut(&[0, 0, 0, 1]).is_err_and(|why| why.contains("short")));
        assert!(Framing::Confluent.cut(b"{\"a\":1}").is_err_and(|why| why.contains("zero byte")));
    }
}
