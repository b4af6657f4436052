//! [`Dataset`]: what the header of a dataset says about its elements.

use crate::heap::local::LocalHeap;
use crate::message;
use crate::model::{
    Address, ChunkedLayout, Dataspace, Datatype, ExternalFile, Fill, FillValue, Filter, Layout,
    Message, MessageFlags, MessageKind, Object, ObjectKind,
};
use crate::shared;
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// A dataset: shape, type and place of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dataset {
    /// Its object header.
    pub address: Address,
    /// Its shape.
    pub dataspace: Dataspace,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Where the elements are.
    pub layout: Layout,
    /// What chunks pass on their way; in the order of writing.
    pub filters: Vec<Filter>,
    /// What elements are that nobody wrote.
    pub fill: FillValue,
}

impl Dataset {
    /// Bytes of all elements; `None` beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.dataspace.elements()?.checked_mul(u64::from(self.datatype.size))
    }

    /// Bytes of an element that nobody wrote: the fill value, or zeros.
    pub(crate) fn fill_element(&self) -> Vec<u8> {
        match &self.fill.value {
            Fill::Value(value) if value.len() == self.datatype.size as usize => value.clone(),
            _ => vec![0; self.datatype.size as usize],
        }
    }
}

impl ChunkedLayout {
    /// Bytes of a chunk without filters; `None` beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        let element = u64::from(self.element_size);
        self.chunk.iter().try_fold(element, |bytes, n| bytes.checked_mul(*n))
    }
}

pub(crate) fn read(walk: &Walk<'_>, object: &Object) -> Result<Dataset> {
    let failed = |reason| Error::at(Structure::ObjectHeader, object.address, reason);
    if object.kind != ObjectKind::Dataset {
        return Err(failed(Reason::Invalid("the object is not a dataset")));
    }
    let find = |kind| object.header.message(kind);
    let of_type = find(MessageKind::DATATYPE)
        .ok_or_else(|| failed(Reason::Invalid("a dataset without a datatype")))?;
    let datatype = self::datatype(walk, of_type)?;
    let space = find(MessageKind::DATASPACE)
        .ok_or_else(|| failed(Reason::Invalid("a dataset without a dataspace")))?;
    let dataspace = decoded(walk, space, Structure::Dataspace, message::dataspace::decode)?;
    let place = find(MessageKind::LAYOUT)
        .ok_or_else(|| failed(Reason::Invalid("a dataset without a layout")))?;
    let layout = decoded(walk, place, Structure::Layout, message::layout::decode)?;
    let filters = match find(MessageKind::FILTER_PIPELINE) {
        Some(message) => {
            let decode = message::filter_pipeline::decode;
            decoded(walk, message, Structure::FilterPipeline, decode)?
        }
        None => Vec::new(),
    };
    let fill = fill(walk, object)?;
    let mut dataset =
        Dataset { address: object.address, dataspace, datatype, layout, filters, fill };
    complete(walk, object, &mut dataset)?;
    Ok(dataset)
}

/// The type that a message of an object has.
pub(crate) fn datatype(walk: &Walk<'_>, message: &Message) -> Result<Datatype> {
    let cursor = walk.cursor(&message.body, Structure::Datatype, message.address);
    shared::datatype(walk, message.flags.contains(MessageFlags::SHARED), &cursor)
}

fn decoded<T>(
    walk: &Walk<'_>,
    message: &Message,
    structure: Structure,
    decode: fn(&mut crate::cursor::Cursor<'_>) -> Result<T>,
) -> Result<T> {
    let resolved = shared::resolve(walk, message)?;
    decode(&mut walk.cursor(&resolved.body, structure, resolved.address))
}

/// The new message if there is one, else the old one.
fn fill(walk: &Walk<'_>, object: &Object) -> Result<FillValue> {
    let structure = Structure::FillValue;
    if let Some(message) = object.header.message(MessageKind::FILL_VALUE) {
        return decoded(walk, message, structure, message::fill_value::decode);
    }
    match object.header.message(MessageKind::FILL_VALUE_OLD) {
        Some(message) => decoded(walk, message, structure, message::fill_value::decode_old),
        None => Ok(FillValue::default()),
    }
}

/// What one message says about another: sizes, external files, ranks.
fn complete(walk: &Walk<'_>, object: &Object, dataset: &mut Dataset) -> Result<()> {
    let invalid = |why| Error::at(Structure::Layout, object.address, Reason::Invalid(why));
    let bytes = dataset.bytes().ok_or_else(|| invalid("a dataset of more than 64 bits"))?;
    let (rank, element) = (dataset.dataspace.rank(), dataset.datatype.size);
    if let Layout::Contiguous { address: None, .. } = dataset.layout
        && let Some(message) = object.header.message(MessageKind::EXTERNAL_FILES)
    {
        dataset.layout = Layout::External { files: external(walk, message)? };
    }
    match &mut dataset.layout {
        Layout::Contiguous { address, size } => {
            // Versions 1 and 2 of the message do not say it, and 3 may be too short for it.
            if *size < bytes {
                *size = bytes;
            }
            if address.is_some_and(|address| walk.available(address) < bytes) {
                let available = address.map_or(0, |address| walk.available(address));
                let reason = Reason::Truncated { needed: bytes, available };
                return Err(Error::at(Structure::Data, object.address, reason));
            }
        }
        Layout::Compact { data } if (data.len() as u64) < bytes => {
            let available = data.len() as u64;
            let reason = Reason::Truncated { needed: bytes, available };
            return Err(Error::at(Structure::Layout, object.address, reason));
        }
        Layout::Chunked(layout) if layout.chunk.len() != rank => {
            return Err(invalid("chunks of another rank than the dataset"));
        }
        Layout::Chunked(layout) if layout.element_size != element => {
            return Err(invalid("chunks of elements of another size than the type"));
        }
        _ => {}
    }
    Ok(())
}

fn external(walk: &Walk<'_>, message: &Message) -> Result<Vec<ExternalFile>> {
    let decode = message::external_files::decode;
    let found = decoded(walk, message, Structure::Message(message.kind.0), decode)?;
    let heap = LocalHeap::read(walk, found.heap)?;
    let mut files = Vec::new();
    for slot in found.slots {
        let name = heap.name(slot.name)?;
        // The same name may be in thousands of slots.
        walk.pay(Structure::LocalHeap, found.heap, name.len() as u64)?;
        files.push(ExternalFile { name, offset: slot.offset, size: slot.size });
    }
    Ok(files)
}
