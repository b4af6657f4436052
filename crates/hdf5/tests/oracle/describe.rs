//! What this crate says about a file, in the same lines as describe.py.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Bound;
use std::path::Path;

use striate_hdf5::model::{
    Address, AllocationTime, Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, Fill,
    FillTime, Layout, LinkTarget, Name, Object, ObjectKind, ReferenceKind, StringPadding,
};
use striate_hdf5::value::{Reference, Value};
use striate_hdf5::{Dataset, File, Result};

/// The most chunks of a dataset that are named.
const CHUNKS: usize = 2000;
/// Chunks that are asked for at a time: few, so that walks go on from everywhere.
const BATCH: usize = 37;

type Opened = File<std::fs::File>;

/// The lines of a file.
pub(crate) fn describe(path: &Path) -> Result<Vec<String>> {
    let file = File::open(std::fs::File::open(path).unwrap())?;
    let mut description = Description { file, lines: Vec::new(), seen: HashSet::new() };
    let root = description.file.root()?;
    description.visit("/", &root)?;
    Ok(description.lines)
}

struct Description {
    file: Opened,
    lines: Vec<String>,
    seen: HashSet<Address>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn text(name: &Name) -> String {
    hex(name.as_bytes())
}

fn order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
        ByteOrder::Vax => "vax",
    }
}

fn string(padding: StringPadding, charset: CharacterSet) -> String {
    let padding = match padding {
        StringPadding::NullTerminated => "term",
        StringPadding::NullPadded => "pad",
        StringPadding::SpacePadded => "space",
    };
    let charset = if charset == CharacterSet::Utf8 { "utf8" } else { "ascii" };
    format!("{padding} {charset}")
}

/// A type in words.
fn kind(datatype: &Datatype) -> String {
    let mut size = datatype.size.to_string();
    let said = match &datatype.class {
        Class::FixedPoint(of) => {
            let sign = if of.signed { "signed" } else { "unsigned" };
            format!("integer {} {sign} {} {}", order(of.order), of.offset, of.precision)
        }
        Class::FloatingPoint(of) => format!(
            "float {} {} {} {} {} {} {} {} {}",
            order(of.order),
            of.offset,
            of.precision,
            of.sign_location,
            of.exponent_location,
            of.exponent_size,
            of.mantissa_location,
            of.mantissa_size,
            of.exponent_bias
        ),
        Class::Time { .. } => "time".into(),
        Class::Bitfield { order: of, .. } => format!("bitfield {}", order(*of)),
        Class::String { padding, charset } => format!("string {}", string(*padding, *charset)),
        Class::VariableString { padding, charset, .. } => {
            size = "variable".into();
            format!("text {}", string(*padding, *charset))
        }
        Class::Opaque { tag } => format!("opaque {}", text(tag)),
        Class::Compound { members } => {
            let members = members.iter().map(|member| {
                format!("{}@{}={}", text(&member.name), member.offset, kind(&member.datatype))
            });
            format!("compound {}", members.collect::<Vec<_>>().join(" "))
        }
        Class::Reference(of) => {
            size = "reference".into();
            if *of == ReferenceKind::Region { "region".into() } else { "object".into() }
        }
        Class::Enumeration { base, members } => {
            let Class::FixedPoint(of) = &base.class else { panic!("{base:?}") };
            let members = members.iter().map(|member| {
                let number = integer(&member.value, of.order, of.signed);
                format!("{}={number}", text(&member.name))
            });
            format!("enum {} {}", kind(base), members.collect::<Vec<_>>().join(" "))
        }
        Class::Sequence { base } => {
            size = "variable".into();
            format!("sequence {}", kind(base))
        }
        Class::Array { base, dimensions } => {
            format!("array {} {}", kind(base), joined(dimensions.iter()))
        }
        Class::Complex { base } => format!("complex {}", kind(base)),
    };
    // The library gives the size in memory of what has such parts.
    if said.contains(" variable)") || said.contains(" reference)") {
        size = "variable".into();
    }
    let committed = if datatype.committed.is_some() { " committed" } else { "" };
    format!("({said} {size}{committed})")
}

/// A whole number of all its bytes.
fn integer(bytes: &[u8], order: ByteOrder, signed: bool) -> i128 {
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::Little {
        bytes.reverse();
    }
    let number = bytes.iter().fold(0_i128, |number, &byte| number << 8 | i128::from(byte));
    let unused = 128 - 8 * bytes.len();
    if signed { number << unused >> unused } else { number }
}

fn joined<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

fn shape(dataspace: &Dataspace) -> String {
    match dataspace {
        Dataspace::Null => "null".into(),
        Dataspace::Scalar => "scalar".into(),
        Dataspace::Simple(dimensions) => joined(dimensions.iter().map(|dimension| {
            let maximum = dimension.maximum.map_or("*".into(), |maximum| maximum.to_string());
            format!("{}/{maximum}", dimension.size)
        })),
    }
}

/// What numpy has no type for.
fn is_readable(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::Time { .. } => false,
        Class::FixedPoint(of) => u32::from(of.precision) == 8 * datatype.size,
        _ => true,
    }
}

fn number(number: f64) -> String {
    if number.is_nan() { "nan".into() } else { hex(&number.to_be_bytes()) }
}

fn value(found: &Value) -> String {
    let several = |values: &[Value]| values.iter().map(value).collect::<Vec<_>>().join(",");
    match found {
        Value::Integer(number) | Value::Enumeration(number, _) => number.to_string(),
        Value::Bitfield(bits) => bits.to_string(),
        Value::Float(float) => number(*float),
        Value::Complex(real, imaginary) => format!("{}+{}", number(*real), number(*imaginary)),
        Value::String(name) => format!("'{}'", text(name)),
        Value::Opaque(bytes) => hex(bytes),
        Value::Compound(values) => format!("{{{}}}", several(values)),
        Value::Array(values) => format!("[{}]", several(values)),
        Value::Sequence(values) => format!("<{}>", several(values)),
        Value::Reference(Reference::Null) => "null".into(),
        Value::Reference(Reference::Object(address)) => address.0.to_string(),
        Value::Reference(Reference::Region { dataset, .. }) => dataset.0.to_string(),
        Value::Reference(other) => format!("{other:?}"),
    }
}

impl Description {
    fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    fn visit(&mut self, path: &str, object: &Object) -> Result<()> {
        if !self.seen.insert(object.address) {
            return Ok(());
        }
        let kind_name = match object.kind {
            ObjectKind::Group => "Group",
            ObjectKind::Dataset => "Dataset",
            ObjectKind::Datatype => "Datatype",
        };
        let (address, references) = (object.address.0, object.header.reference_count);
        self.say(format!("object {path} {kind_name} {address} {references}"));
        self.attributes(path, object)?;
        match object.kind {
            ObjectKind::Group => self.group(path, object),
            ObjectKind::Dataset => self.dataset(path, object),
            ObjectKind::Datatype => {
                let datatype = self.file.committed_datatype(object)?;
                self.say(format!("datatype {path} {}", kind(&datatype)));
                Ok(())
            }
        }
    }

    fn values(&self, datatype: &Datatype, bytes: &[u8]) -> Result<String> {
        let values = self.file.values(datatype, bytes)?;
        Ok(values.iter().map(value).collect::<Vec<_>>().join(" "))
    }

    fn attributes(&mut self, path: &str, object: &Object) -> Result<()> {
        let attributes = self.file.attributes(object)?;
        let line = |attribute: &Attribute| {
            let datatype = &attribute.datatype;
            let values = if is_readable(datatype) {
                self.values(datatype, &attribute.value)?
            } else {
                "?".into()
            };
            let (name, of) = (text(&attribute.name), kind(datatype));
            let shape = shape(&attribute.dataspace);
            Ok(format!("attribute {path} {name} {of} {shape} {values}"))
        };
        let mut lines = attributes.iter().map(line).collect::<Result<Vec<_>>>()?;
        lines.sort();
        self.lines.extend(lines);
        if object.header.attribute_order_tracked {
            let names: Vec<String> =
                attributes.iter().map(|attribute| text(&attribute.name)).collect();
            self.say(format!("attribute order {path} {}", names.join(" ")));
        }
        Ok(())
    }

    fn group(&mut self, path: &str, object: &Object) -> Result<()> {
        let links = self.file.links(object)?;
        let ordered = links.iter().any(|link| link.creation_order.is_some());
        let by_order: Vec<String> = links.iter().map(|link| text(&link.name)).collect();
        let mut sorted = links;
        sorted.sort_by(|one, other| one.name.cmp(&other.name));
        for (number, link) in sorted.iter().enumerate() {
            // Looking up is another way than listing.
            if number % 17 == 0 {
                let found = self.file.link(object, link.name.as_bytes())?;
                assert_eq!(found.as_ref(), Some(link));
            }
            let target = match &link.target {
                LinkTarget::Hard(address) => format!("hard {}", address.0),
                LinkTarget::Soft(path) => format!("soft {}", text(path)),
                LinkTarget::External { file, path } => {
                    format!("external {} {}", text(file), text(path))
                }
                LinkTarget::UserDefined { .. } => panic!("{link:?}"),
            };
            self.say(format!("link {path} {} {target}", text(&link.name)));
        }
        assert_eq!(self.file.link(object, b"no such name")?, None);
        if ordered {
            self.say(format!("link order {path} {}", by_order.join(" ")));
        }
        let path = if path == "/" { "" } else { path };
        for link in sorted {
            if let LinkTarget::Hard(address) = link.target {
                let target = self.file.object(address)?;
                self.visit(&format!("{path}/{}", text(&link.name)), &target)?;
            }
        }
        Ok(())
    }

    fn dataset(&mut self, path: &str, object: &Object) -> Result<()> {
        let dataset = self.file.dataset(object)?;
        let base = self.file.superblock().base;
        let layout = match &dataset.layout {
            Layout::Compact { .. } => "compact".into(),
            Layout::Contiguous { address, .. } => {
                let at = address.map_or("None".into(), |at| (at.0 + base).to_string());
                format!("contiguous {at}")
            }
            Layout::Chunked(layout) => format!("chunked {}", joined(layout.chunk.iter())),
            Layout::Virtual { .. } => "virtual".into(),
            Layout::External { files } => {
                let files = files.iter().map(|file| {
                    let size = file.size.map_or("*".into(), |size| size.to_string());
                    format!("{}+{}:{size}", text(&file.name), file.offset)
                });
                format!("external {}", files.collect::<Vec<_>>().join(" "))
            }
        };
        let (of, shape) = (kind(&dataset.datatype), shape(&dataset.dataspace));
        self.say(format!("dataset {path} {of} {shape} {layout}"));
        for (number, filter) in dataset.filters.iter().enumerate() {
            let parameters: Vec<String> = filter.parameters.iter().map(u32::to_string).collect();
            let (id, optional) = (filter.id, u8::from(filter.optional));
            self.say(format!("filter {path} {number} {id} {optional} {}", parameters.join(" ")));
        }
        self.fill(path, &dataset)?;
        if matches!(dataset.layout, Layout::Chunked(_)) {
            self.chunks(path, &dataset)?;
        }
        self.elements(path, &dataset)
    }

    fn fill(&mut self, path: &str, dataset: &Dataset) -> Result<()> {
        let allocation = match dataset.fill.allocation {
            AllocationTime::Unspecified => 0,
            AllocationTime::Early => 1,
            AllocationTime::Late => 2,
            AllocationTime::Incremental => 3,
        };
        let time = match dataset.fill.time {
            FillTime::OnAllocation => 0,
            FillTime::Never => 1,
            FillTime::IfSet => 2,
        };
        // h5py does not get values of other types.
        let has_fixed_size = !matches!(
            dataset.datatype.class,
            Class::Sequence { .. } | Class::VariableString { .. } | Class::Opaque { .. }
        );
        let fill = match &dataset.fill.value {
            Fill::Undefined => "undefined".into(),
            Fill::Default => "default".into(),
            Fill::Value(bytes) if is_readable(&dataset.datatype) && has_fixed_size => {
                format!("value {}", self.values(&dataset.datatype, bytes)?)
            }
            Fill::Value(_) => "value".into(),
        };
        self.say(format!("fill {path} {allocation} {time} {fill}"));
        Ok(())
    }

    fn chunks(&mut self, path: &str, dataset: &Dataset) -> Result<()> {
        let mut chunks = self.file.chunks(dataset, Bound::Unbounded, usize::MAX)?;
        if chunks.len() <= CHUNKS {
            let mut again = Vec::new();
            loop {
                let last = again.last().map(|chunk: &striate_hdf5::model::Chunk| &chunk.offset);
                let from = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.as_slice()));
                let batch = self.file.chunks(dataset, from, BATCH)?;
                if batch.is_empty() {
                    break;
                }
                again.extend(batch);
            }
            assert_eq!(chunks, again, "{path}");
        }
        for chunk in chunks.iter().step_by(61) {
            assert_eq!(self.file.chunk(dataset, &chunk.offset)?.as_ref(), Some(chunk), "{path}");
        }
        // The library names wrong places of these.
        let dimensions = dataset.dataspace.dimensions().iter().enumerate();
        let mut growing = dimensions.filter(|(_, dimension)| dimension.maximum.is_none());
        if let (Some((1.., _)), None) = (growing.next(), growing.next()) {
            self.say(format!("chunks {path} ?"));
            return Ok(());
        }
        self.say(format!("chunks {path} {}", chunks.len()));
        chunks.sort_by(|one, other| one.offset.cmp(&other.offset));
        let base = self.file.superblock().base;
        for chunk in chunks.iter().take(CHUNKS) {
            let (offset, at) = (joined(chunk.offset.iter()), chunk.address.0 + base);
            let (size, mask) = (chunk.size, chunk.filter_mask);
            self.say(format!("chunk {path} {offset} {at} {size} {mask}"));
        }
        Ok(())
    }

    fn elements(&mut self, path: &str, dataset: &Dataset) -> Result<()> {
        let bytes = dataset.bytes().unwrap() as usize;
        let mut buffer = vec![0xEE; bytes];
        if matches!(dataset.layout, Layout::Virtual { .. } | Layout::External { .. }) {
            let error = self.file.read(dataset, &mut buffer).unwrap_err().to_string();
            assert!(error.contains("is not supported"), "{error}");
            return Ok(());
        }
        self.file.read(dataset, &mut buffer)?;
        self.check_boxes(path, dataset, &buffer)?;
        // What is then read is not said.
        let is_never_filled = dataset.fill.time == FillTime::Never
            && matches!(dataset.layout, Layout::Chunked(_))
            && self.file.chunks(dataset, Bound::Unbounded, 1)?.is_empty();
        let is_sequence = matches!(dataset.datatype.class, Class::Sequence { .. });
        let is_unwritten = matches!(dataset.layout, Layout::Contiguous { address: None, .. });
        if !is_readable(&dataset.datatype) || (is_sequence && is_unwritten) || is_never_filled {
            return Ok(());
        }
        let values = self.values(&dataset.datatype, &buffer)?;
        self.say(format!("values {path} {values}"));
        Ok(())
    }

    /// Parts are the same as parts of the whole.
    fn check_boxes(&self, path: &str, dataset: &Dataset, whole: &[u8]) -> Result<()> {
        let (sizes, element) = (dataset.dataspace.sizes(), dataset.datatype.size as usize);
        if sizes.is_empty() || sizes.contains(&0) {
            return Ok(());
        }
        for step in 1..4 {
            let start: Vec<u64> = sizes.iter().map(|size| size * (step - 1) / 5).collect();
            let count: Vec<u64> = sizes.iter().map(|size| (size / step).clamp(1, 9)).collect();
            let count: Vec<u64> = (count.iter().zip(&sizes).zip(&start))
                .map(|((count, size), start)| *count.min(&(size - start)))
                .collect();
            let mut part = vec![0; count.iter().product::<u64>() as usize * element];
            self.file.read_box(dataset, &start, &count, &mut part)?;
            for (number, found) in part.chunks_exact(element).enumerate() {
                let (mut rest, mut at, mut stride) = (number as u64, 0, 1);
                for dimension in (0..sizes.len()).rev() {
                    at += (start[dimension] + rest % count[dimension]) * stride;
                    rest /= count[dimension];
                    stride *= sizes[dimension];
                }
                let at = at as usize * element;
                assert_eq!(found, &whole[at..at + element], "{path} {start:?} {count:?} {number}");
            }
        }
        Ok(())
    }
}
