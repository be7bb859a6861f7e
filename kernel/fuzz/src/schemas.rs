//! Shared by the targets of schemas: texts that grow by repeated use of a name, and the properties of a reader for any
//! accepted schema.
//!
//! libFuzzer checks time and memory: see FUZZ_LIMITS in the Makefile.

use _kernel::formats::framing::Framing;
use _kernel::formats::{Decoded, Format, Outcome, Reader};
use arrow_array::{Array, BinaryArray};

/// The longest text. Longer ones find nothing new.
pub const LONGEST_TEXT: usize = 1 << 20;

/// A count from an arbitrary number: usually small, because large counts of everything take long, and sometimes very
/// large.
pub fn count(any: u16) -> u16 {
    if any >= 0xff00 { any } else { any % 32 }
}

/// The number of rows of one input.
const MOST_ROWS: usize = 64;

/// The writer id in the framing of the rows.
const WRITER: u32 = 7;

/// The crates that compile and load descriptors panic at input that no compiler writes, and the kernel turns those
/// panics into errors. The fuzzer's own hook would end the process at once.
pub fn allow_panics_of_descriptors() {
    let stop = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |place| place.file());
        if !["/prost-", "/protox"].iter().any(|name| file.contains(name)) {
            stop(panic);
        }
    }));
}

/// Decodes rows with the first schema and, if it fits, with the other one. All rows must come out, in one batch or in
/// several, and no batch may have more rows than its input.
pub fn read(make: impl Fn() -> Box<dyn Format>, writer: Option<&[u8]>, rows: &[&[u8]]) {
    let mut readers = vec![Reader::new(make(), Framing::None)];
    let mut framed = Reader::new(make(), Framing::Confluent);
    if writer.is_some_and(|schema| framed.add_writer(WRITER, schema).is_ok()) {
        readers.push(framed);
    }
    let plain: Vec<Vec<u8>> = rows
        .iter()
        .cycle()
        .take(if rows.is_empty() { 0 } else { MOST_ROWS })
        .map(|row| row.to_vec())
        .collect();
    for (at, reader) in readers.iter_mut().enumerate() {
        let framing: &[u8] = if at == 0 { &[] } else { &[0, 0, 0, 0, WRITER as u8] };
        let rows: Vec<Vec<u8>> = plain.iter().map(|row| [framing, row].concat()).collect();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let mut done = 0;
        while done < rows.len() {
            let values = BinaryArray::from_vec(rows[done..].to_vec());
            let Ok(Outcome::Decoded(Decoded { array, faults })) = reader.decode(&values) else {
                panic!("neither is the writer unknown nor a column too large");
            };
            assert!((1..=rows.len() - done).contains(&array.len()));
            assert_eq!(array.data_type(), reader.data_type());
            array.to_data().validate_full().unwrap();
            assert!(faults.iter().all(|fault| fault.row < array.len() && !fault.reason.is_empty()));
            assert!(faults.is_sorted_by(|one, next| one.row < next.row));
            done += array.len();
        }
    }
}
