//! Shared by the targets of the formats: rows of arbitrary bytes between good ones, and the properties that must hold
//! for any bytes.

use std::cell::RefCell;
use std::collections::HashMap;

use _kernel::formats::framing::Framing;
use _kernel::formats::{Decoded, Fault, Format, Outcome, Reader};
use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray};
use arrow_schema::DataType;

/// Each row is decoded three times. More rows take time and find nothing new.
const MOST_ROWS: usize = 6;

/// A reader, a value that it decodes without a fault, and the writers' schemas, by their ids from 0 on. The good value
/// is written with the first schema.
pub struct Case {
    reader: Reader,
    framed: bool,
    good: Vec<u8>,
    /// Whether a row that does not parse leaves no values.
    all_or_nothing: bool,
}

impl Case {
    pub fn new(
        format: impl Format + 'static,
        framed: bool,
        writers: &[Vec<u8>],
        good: &[u8],
        all_or_nothing: bool,
    ) -> Self {
        let framing = if framed { Framing::Confluent } else { Framing::None };
        let mut reader = Reader::new(Box::new(format), framing);
        for (id, schema) in writers.iter().enumerate() {
            reader.add_writer(id as u32, schema).unwrap();
        }
        let good = if framed { [&[0; 5], good].concat() } else { good.to_vec() };
        let mut case = Case { reader, framed, good, all_or_nothing };
        assert_eq!(case.decode(&[Some(&case.good.clone())]).faults, [], "a good value");
        case
    }

    fn value(&self, row: &[u8]) -> Vec<u8> {
        match row {
            // Few ids, at least one of them unknown. Sometimes the fuzzer writes the framing itself.
            &[id @ ..0xf0, ref payload @ ..] if self.framed => [&[0, 0, 0, 0, id % 5], payload].concat(),
            _ => row.to_vec(),
        }
    }

    fn decode(&mut self, rows: &[Option<&[u8]>]) -> Decoded {
        let values = BinaryArray::from_opt_vec(rows.to_vec());
        loop {
            match self.reader.decode(&values).unwrap() {
                Outcome::Decoded(decoded) => return decoded,
                Outcome::UnknownWriters(ids) => {
                    assert!(!ids.is_empty());
                    for id in ids {
                        self.reader.refuse_writer(id, format!("{id} is unknown"));
                    }
                }
            }
        }
    }

    fn check(&mut self, rows: &[&[u8]]) {
        let good = self.good.clone();
        let rows: Vec<_> = rows.iter().take(MOST_ROWS).map(|row| self.value(row)).collect();
        let mut batch = vec![Some(good.as_slice())];
        batch.extend(rows.iter().map(|row| Some(row.as_slice())));
        batch.extend([None, Some(good.as_slice())]);

        let Decoded { array, faults } = self.decode(&batch);
        assert_eq!(array.len(), batch.len());
        assert_eq!(array.data_type(), self.reader.data_type());
        array.to_data().validate_full().unwrap();
        assert!(faults.is_sorted_by(|one, next| one.row < next.row), "in order, and one per row at most");
        assert!(faults.iter().all(|fault| (1..=rows.len()).contains(&fault.row)), "good rows have none");
        assert!(faults.iter().all(|fault| !fault.reason.is_empty()));
        assert!(array.is_null(batch.len() - 2), "a row of no bytes is null");
        if self.all_or_nothing {
            faults.iter().for_each(|fault| assert_nothing(&array, fault.row));
        }

        let again = self.decode(&batch);
        assert_eq!(again.array.to_data(), array.to_data(), "the same, decoded again");
        assert_eq!(again.faults, faults);

        let mut faults = faults.into_iter().peekable();
        for (at, row) in batch.iter().enumerate() {
            let alone = self.decode(&[*row]);
            assert_eq!(alone.array.to_data(), array.slice(at, 1).to_data(), "row {at} alone");
            let fault = faults.next_if(|fault| fault.row == at).map(|fault| Fault { row: 0, ..fault });
            assert_eq!(alone.faults, Vec::from_iter(fault), "row {at} alone");
        }
        self.reader.forget_refused();
    }
}

fn assert_nothing(array: &dyn Array, row: usize) {
    match array.data_type() {
        DataType::Struct(_) => {
            assert!(array.is_valid(row));
            assert!(array.as_struct().columns().iter().all(|column| column.is_null(row) || is_null(column)));
        }
        _ => assert!(array.is_null(row) || is_null(array)),
    }
}

/// Of type null, which has no validity bits.
fn is_null(array: &dyn Array) -> bool {
    array.data_type() == &DataType::Null
}

thread_local! {
    // Kept from input to input: building one takes longer than using it, and a used one must behave like a new one.
    static CASES: RefCell<HashMap<(usize, bool), Case>> = RefCell::default();
}

/// Decodes the rows of an input with the case that its first byte selects, one of `count`, framed or not.
pub fn check((choice, rows): (u8, Vec<&[u8]>), count: usize, make: impl FnOnce(usize, bool) -> Case) {
    let (case, framed) = (usize::from(choice >> 1) % count, choice & 1 == 1);
    CASES.with_borrow_mut(|cases| {
        cases.entry((case, framed)).or_insert_with(|| make(case, framed)).check(&rows);
    });
}
