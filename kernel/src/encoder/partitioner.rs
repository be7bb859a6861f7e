//! Partitions of records, by the rules of Kafka's Java producer.
#![forbid(unsafe_code)]

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The partition of a key: records with equal keys go where Java's producer puts them.
///
/// `partitions` must not be 0.
#[inline]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions
}

/// MurmurHash2 as in Kafka's `Utils.murmur2`.
#[inline]
pub fn murmur2(data: &[u8]) -> u32 {
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in words.by_ref() {
        let mut word = u32::from_le_bytes(word.try_into().unwrap_or_default()).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

/// Takes turns among the partitions of a topic, for records without a key and without a partition.
#[derive(Debug)]
pub struct Rotation {
    /// Partitions that have a leader. Empty: all of `partitions`.
    available: Vec<u32>,
    partitions: u32,
    turn: u64,
}

impl Rotation {
    pub fn new(partitions: u32, available: Vec<u32>, seed: u64) -> Self {
        Rotation { available, partitions, turn: seed }
    }

    /// Continues over other partitions.
    pub fn reset(&mut self, partitions: u32, available: Vec<u32>) {
        (self.partitions, self.available) = (partitions, available);
    }

    #[inline]
    pub fn current(&self) -> u32 {
        match self.available.len() as u64 {
            0 => (self.turn % u64::from(self.partitions.max(1))) as u32,
            length => self.available.get((self.turn % length) as usize).copied().unwrap_or_default(),
        }
    }

    pub fn advance(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w3_hashes_are_those_of_java() {
        for (key, wanted) in [
            (&b"21"[..], -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key) as i32, wanted, "{key:?}");
        }
    }

    #[test]
    fn w3_a_rotation_uses_the_available_partitions_in_turn() {
        let mut rotation = Rotation::new(5, vec![1, 4], 3);
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(rotation.current());
            rotation.advance();
        }
        rotation.reset(7, Vec::new());
        seen.push(rotation.current());
        assert_eq!(seen, [4, 1, 4, 6]);
    }
}
