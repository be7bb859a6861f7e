//! The rows of the records of a batch, so that a record that a broker refuses can be found in the input.
#![forbid(unsafe_code)]

/// Rising row numbers. They take one byte per row if the distances between rows are below 128, and nothing if the rows
/// follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowNumbers {
    first: u64,
    last: u64,
    count: usize,
    /// From the second row on, the distance to the row before, as a varint. Empty if all distances are 1.
    distances: Vec<u8>,
}

impl RowNumbers {
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    /// `row` is above all before.
    #[inline(always)]
    pub fn push(&mut self, row: u64) {
        if self.count == 0 {
            self.first = row;
        } else {
            let mut distance = row - self.last;
            if distance != 1 || !self.distances.is_empty() {
                if self.distances.is_empty() {
                    self.distances.resize(self.count - 1, 1);
                }
                while distance >= 0x80 {
                    self.distances.push(distance as u8 | 0x80);
                    distance >>= 7;
                }
                self.distances.push(distance as u8);
            }
        }
        self.last = row;
        self.count += 1;
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let mut distances = self.distances.iter();
        let mut next = self.first;
        (0..self.count).map(move |_| {
            let row = next;
            let mut distance = u64::from(self.distances.is_empty());
            for (at, byte) in distances.by_ref().enumerate() {
                distance |= u64::from(byte & 0x7f) << (7 * at);
                if *byte < 0x80 {
                    break;
                }
            }
            next += distance;
            row
        })
    }
}

impl FromIterator<u64> for RowNumbers {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        let mut numbers = RowNumbers::default();
        rows.into_iter().for_each(|row| numbers.push(row));
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_that_were_added() {
        for rows in [
            vec![],
            vec![7],
            vec![0, 1, 2, 3],
            vec![5, 6, 9, 10, 11],
            vec![0, 127, 255, 383, 1 << 40, u64::MAX],
            vec![3, 5, 6, 7],
        ] {
            let numbers: RowNumbers = rows.iter().copied().collect();
            assert_eq!(numbers.iter().collect::<Vec<_>>(), rows);
            assert_eq!(numbers.first(), rows.first().copied().unwrap_or_default());
            assert_eq!(numbers.last(), rows.last().copied().unwrap_or_default());
        }
    }

    #[test]
    fn consecutive_rows_take_no_memory() {
        assert_eq!((10..10_000).collect::<RowNumbers>().distances.capacity(), 0);
    }
}
