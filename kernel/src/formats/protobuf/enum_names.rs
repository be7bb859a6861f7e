//! The names of an enum by number.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use prost_reflect::{EnumDescriptor, Syntax};

/// Numbers below this are found without hashing.
const DENSE: i32 = 256;

pub struct EnumNames {
    enum_name: String,
    dense: Vec<Option<Box<[u8]>>>,
    sparse: HashMap<i32, Box<[u8]>>,
    /// A closed enum (proto2): a field with a number that the enum does not have counts as unknown.
    pub closed: bool,
}

impl EnumNames {
    pub fn new(descriptor: &EnumDescriptor) -> Self {
        let mut names = EnumNames {
            enum_name: descriptor.name().to_owned(),
            dense: Vec::new(),
            sparse: HashMap::new(),
            closed: descriptor.parent_file().syntax() == Syntax::Proto2,
        };
        // If a number has several names, the first declared counts.
        for value in &descriptor.enum_descriptor_proto().value {
            let (number, name) = (value.number(), value.name().as_bytes());
            if (0..DENSE).contains(&number) {
                let index = number as usize;
                names.dense.resize(names.dense.len().max(index + 1), None);
                names.dense[index].get_or_insert_with(|| name.into());
            } else {
                names.sparse.entry(number).or_insert_with(|| name.into());
            }
        }
        names
    }

    #[inline(always)]
    pub fn get(&self, number: i32) -> Option<&[u8]> {
        if let Some(name) = usize::try_from(number).ok().and_then(|index| self.dense.get(index)) {
            return name.as_deref();
        }
        self.sparse.get(&number).map(|name| &**name)
    }

    /// The name that Google's Java library, and so Spark, gives to an unknown number.
    pub fn unknown(&self, number: i32) -> Vec<u8> {
        format!("UNKNOWN_ENUM_VALUE_{}_{number}", self.enum_name).into_bytes()
    }
}
