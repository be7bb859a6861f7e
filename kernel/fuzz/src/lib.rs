//! Shared by the targets of record batches: arbitrary arguments of `open`, and the properties that must hold for any
//! bytes.

pub mod formats;
pub mod schemas;

use _kernel::columns::Column;
use _kernel::decoder::{Decoder, Request};
use arbitrary::Arbitrary;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

/// Small, so that a decompression bomb exceeds it within the memory and time of a fuzz run.
const DECOMPRESSION_LIMIT: usize = 1 << 20;

#[derive(Debug, Arbitrary)]
pub struct Arguments {
    start: u32,
    length: u16,
    room: Option<u16>,
    aligned: bool,
    cut: bool,
    aborted: Option<Vec<(u8, u16)>>,
    position: u16,
    batch_rows: u8,
    batch_bytes: u16,
    columns: u8,
}

impl Arguments {
    /// Decodes `data` and checks the contract of the decoder.
    pub fn decode(self, data: &[u8]) {
        // The offset column is always selected: it shows whether the range is kept.
        let wanted: Vec<_> = Column::ALL
            .into_iter()
            .enumerate()
            .filter(|(at, column)| *column == Column::Offset || self.columns >> at & 1 == 1)
            .map(|(_, column)| column)
            .collect();
        let offset = wanted.iter().position(|column| *column == Column::Offset).unwrap();
        let start = i64::from(self.start % 1000);
        let stop = start + i64::from(self.length);
        let high_watermark = self.room.map_or(i64::MAX, |room| stop + i64::from(room));
        let batch_rows = usize::from(self.batch_rows) + 1;
        let mut decoder = Decoder::new("topic", 3, &wanted, DECOMPRESSION_LIMIT);
        decoder.open(Request {
            start,
            stop,
            high_watermark,
            aligned: self.aligned,
            cut: self.cut,
            aborted: self.aborted.map(|list| list.iter().map(|&(id, at)| (id.into(), at.into())).collect()),
            position: usize::from(self.position % 4) * usize::from(self.position) % (data.len() + 1),
            batch_rows,
            batch_bytes: usize::from(self.batch_bytes) + 1,
        });
        let mut last = start - 1;
        loop {
            let before = (decoder.next_offset(), decoder.position());
            match decoder.next_batch(data) {
                Ok(Some(batch)) => {
                    assert!(batch.num_rows() > 0 && batch.num_rows() <= batch_rows);
                    for column in batch.columns() {
                        column.to_data().validate_full().unwrap();
                    }
                    for &offset in batch.column(offset).as_primitive::<Int64Type>().values() {
                        assert!(offset > last && offset < stop, "{offset} after {last}, stop {stop}");
                        last = offset;
                    }
                    assert!(decoder.next_offset() > last);
                }
                Ok(None) => {
                    assert_eq!(decoder.next_batch(data), Ok(None), "the end stays the end");
                    break;
                }
                Err(error) => {
                    assert_eq!(decoder.next_batch(data), Err(error), "an error stays");
                    break;
                }
            }
            assert!((decoder.next_offset(), decoder.position()) >= before, "never backwards");
        }
        assert!(decoder.next_offset() >= start && decoder.next_offset() <= stop.max(start));
        assert!(decoder.position() <= data.len());
    }
}
