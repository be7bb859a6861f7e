//! Descriptor sets: compiles `.proto` texts, loads sets, and finds a message.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use prost_reflect::prost::Message;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::limits::Limits;
use super::wire::{Cursor, LENGTH, MAX_DEPTH};

/// Turns panics into errors: prost-reflect trusts the output of compilers, and panics at some sets that no compiler
/// writes.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("the descriptor set contradicts itself: no compiler made it".to_owned()))
}

/// The most fields of all descriptors of a set, each of which takes hundreds of bytes: an empty message is two bytes
/// long.
const MOST_FIELDS: usize = 500_000;

/// The most bytes of a set.
const LONGEST_SET: usize = 32 << 20;

/// Errors in a longer text have no line and column. The compiler searches the place of each error among all
/// declarations: 8,000 undefined names took 2 s, and 50,000 a minute.
const LONGEST_WITH_LINES: usize = 32 << 10;

/// The number of names that an error shows.
const SHOWN: usize = 10;

/// A file as a schema registry stores it.
#[derive(Clone)]
pub enum Proto {
    Source(String),
    /// A serialized FileDescriptorProto. Its own name is ignored: other files import it under another one.
    Descriptor(Vec<u8>),
}

impl From<String> for Proto {
    fn from(source: String) -> Self {
        Proto::Source(source)
    }
}

struct Files(Vec<(String, Proto)>);

impl FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((_, Proto::Source(text))) if text.len() <= LONGEST_WITH_LINES => {
                File::from_source(name, text)
            }
            Some((_, Proto::Source(text))) => {
                let mut file = File::from_source(name, text)?.file_descriptor_proto().clone();
                file.source_code_info = None;
                Ok(File::from_file_descriptor_proto(file))
            }
            Some((_, Proto::Descriptor(bytes))) => {
                let mut file = FileDescriptorProto::decode(bytes.as_slice()).map_err(|error| {
                    protox::Error::new(format!("{name} is not a file descriptor: {error}"))
                })?;
                file.name = Some(name.to_owned());
                file.source_code_info = None;
                Ok(File::from_file_descriptor_proto(file))
            }
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// See [`super::compile`].
pub fn compile(main: &str, files: Vec<(String, Proto)>) -> Result<Vec<u8>, String> {
    let mut limits = Limits::default();
    for (name, file) in &files {
        let checked = match file {
            Proto::Source(text) => limits.add(text),
            Proto::Descriptor(bytes) => weigh(bytes, &FILE),
        };
        checked.map_err(|error| format!("{name} {error}"))?;
    }
    let mut resolver = ChainFileResolver::new();
    resolver.add(Files(files));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    // The debug form has the file, the line and the column.
    compiler.open_file(main).map_err(|error| format!("{error:?}"))?;
    Ok(compiler.encode_file_descriptor_set())
}

/// The files of a set. The last one is the main file; the others are its imports.
pub fn load(descriptors: &[u8]) -> Result<FileDescriptor, String> {
    weigh(descriptors, &SET).map_err(|error| format!("the descriptor set {error}"))?;
    let mut set = FileDescriptorSet::decode(descriptors).map_err(|_| {
        "is not a descriptor set, as `protoc --include_imports --descriptor_set_out` writes it".to_owned()
    })?;
    let main = set.file.last().ok_or("the descriptor set holds no file")?.name().to_owned();
    if let Some(file) = set.file.iter().find(|file| file.syntax() == "editions") {
        return Err(format!(
            "{}: is written in a Protobuf edition; proto2 and proto3 can be read",
            file.name()
        ));
    }
    set.file.iter_mut().for_each(|file| file.source_code_info = None);
    add_well_known(&mut set);
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_set(set)
        .map_err(|error| format!("{error}; is the descriptor set whole? (protoc --include_imports)"))?;
    pool.get_file_by_name(&main).ok_or_else(|| format!("the descriptor set does not hold {main}"))
}

/// Google's well-known types are the same everywhere, so a set may leave them out.
fn add_well_known(set: &mut FileDescriptorSet) {
    let known = DescriptorPool::global();
    let mut there: HashSet<String> = set.file.iter().map(|file| file.name().to_owned()).collect();
    let mut next = 0;
    while next < set.file.len() {
        for import in set.file[next].dependency.clone() {
            if !there.contains(&import)
                && let Some(file) = known.get_file_by_name(&import)
            {
                there.insert(import);
                set.file.push(file.file_descriptor_proto().clone());
            }
        }
        next += 1;
    }
}

/// The fields of a descriptor that are descriptors themselves, by number.
struct Shape(&'static [(u32, &'static Shape)]);

static LEAF: Shape = Shape(&[]);
static FIELD: Shape = Shape(&[(8, &LEAF)]);
static VALUE: Shape = Shape(&[(3, &LEAF)]);
static ENUM: Shape = Shape(&[(2, &VALUE), (3, &LEAF), (4, &LEAF)]);
static ONEOF: Shape = Shape(&[(2, &LEAF)]);
static MESSAGE: Shape = Shape(&[
    (2, &FIELD),
    (3, &MESSAGE),
    (4, &ENUM),
    (5, &VALUE),
    (6, &FIELD),
    (7, &LEAF),
    (8, &ONEOF),
    (9, &LEAF),
]);
static METHOD: Shape = Shape(&[(4, &LEAF)]);
static SERVICE: Shape = Shape(&[(2, &METHOD), (3, &LEAF)]);
static FILE: Shape = Shape(&[(4, &MESSAGE), (5, &ENUM), (6, &SERVICE), (7, &FIELD), (8, &LEAF), (9, &LEAF)]);
static SET: Shape = Shape(&[(1, &FILE)]);

/// Counts the parts of descriptors before memory is taken for them. Malformed bytes are left to the parser.
fn weigh(bytes: &[u8], shape: &'static Shape) -> Result<(), String> {
    if bytes.len() > LONGEST_SET {
        return Err(format!("has more than {} MB", LONGEST_SET >> 20));
    }
    let mut fields = 0;
    let mut waiting = vec![(Cursor::new(bytes), shape)];
    while let Some((mut cursor, shape)) = waiting.pop() {
        while !cursor.is_empty() {
            fields += 1;
            if fields > MOST_FIELDS {
                return Err(format!(
                    "has more than {MOST_FIELDS} parts, those of all messages and enums counted"
                ));
            }
            let Ok(tag) = cursor.tag() else { break };
            let inner = shape.0.iter().find(|(number, _)| tag == number << 3 | LENGTH);
            if let Some((_, inner)) = inner {
                let Ok(bytes) = cursor.bytes() else { break };
                waiting.push((Cursor::new(bytes), inner));
            } else if cursor.skip(tag, MAX_DEPTH).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// A message by its full name or its last part, or the first one of the file.
pub fn find(main: &FileDescriptor, name: &str) -> Result<MessageDescriptor, String> {
    if name.is_empty() {
        return main.messages().next().ok_or_else(|| format!("{} has no message", main.name()));
    }
    let pool = main.parent_pool();
    if let Some(message) = pool.get_message_by_name(name.strip_prefix('.').unwrap_or(name)) {
        return Ok(message);
    }
    let end = format!(".{name}");
    let all = || pool.all_messages().filter(|message| !message.is_map_entry());
    let found = all().filter(|message| message.full_name().ends_with(&end)).collect::<Vec<_>>();
    match found.as_slice() {
        [message] => Ok(message.clone()),
        [] => Err(format!("no message {name}; there are {}", listed(&all().collect::<Vec<_>>()))),
        several => Err(format!("{name} can be {}: give the full name", listed(several))),
    }
}

fn listed(messages: &[MessageDescriptor]) -> String {
    let shown = messages.iter().take(SHOWN).map(MessageDescriptor::full_name).collect::<Vec<_>>().join(", ");
    if messages.len() > SHOWN { format!("{shown} and {} more", messages.len() - SHOWN) } else { shown }
}
