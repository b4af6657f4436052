//! A corpus of datasets, drawn from seeds: all formats and types, odd names, records and none,
//! attributes of all kinds, numbers that are none, text that is no text.
//!
//! A dataset is a header and its data, and its file is put together here, byte by byte, so that no
//! file is written by the code that reads it.

use std::path::{Path, PathBuf};

use striate_array::format::{Alignment, Attribute, Dimension, Header, Variable, check_name};
use striate_array::{Format, Type, Values};

/// Numbers that look random and are the same for the same seed: `SplitMix64`.
pub(crate) struct Draw {
    state: u64,
    /// Whether names are left out that are words of CDL, which ncgen does not take.
    tame: bool,
}

impl Draw {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), tame: false }
    }

    pub(crate) const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    const fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A dataset: what its header says, and the values of every variable.
pub(crate) struct Made {
    pub(crate) header: Header,
    pub(crate) data: Vec<Values>,
}

impl Made {
    /// The dataset of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self::drawn(seed, Draw::new(seed))
    }

    /// The dataset of a seed, without names that ncgen does not take.
    #[cfg(feature = "peers")]
    pub(crate) fn tame(seed: u64) -> Self {
        Self::drawn(seed, Draw { tame: true, ..Draw::new(seed) })
    }

    fn drawn(seed: u64, mut draw: Draw) -> Self {
        let format = [Format::Cdf1, Format::Cdf2, Format::Cdf5][(seed % 3) as usize];
        let mut header = Header::new(format);
        dimensions(&mut draw, &mut header);
        let count = draw.below(5);
        header.attributes = attributes(&mut draw, format, count);
        for _ in 0..draw.below(8) {
            variable(&mut draw, &mut header);
        }
        if !header.variables.iter().any(|variable| header.is_record(variable)) {
            // Without record variables, records are not counted.
            header.records = 0;
        }
        let on_page = draw.one_in(4);
        let alignment = Alignment {
            header: if on_page { 512 } else { 1 },
            fixed: if on_page { 64 } else { 1 },
            fixed_from: 0,
            record: 1,
        };
        header.arrange(&alignment, None).unwrap();
        let data = header
            .variables
            .iter()
            .map(|variable| {
                let elements = header.shape(variable).iter().product::<u64>();
                values(&mut draw, variable.external, elements as usize)
            })
            .collect();
        Self { header, data }
    }

    /// Whether a value is NaN, which other tools do not find the same as itself.
    #[cfg(feature = "peers")]
    pub(crate) fn has_nan(&self) -> bool {
        let attributes = |list: &[Attribute]| list.iter().any(|a| is_nan(&a.values));
        self.data.iter().any(is_nan)
            || attributes(&self.header.attributes)
            || self.header.variables.iter().any(|variable| attributes(&variable.attributes))
    }

    /// The bytes of its file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let header = &self.header;
        let mut file = header.encode();
        let mut put = |at: u64, bytes: &[u8], padded: bool| {
            let at = at as usize;
            let end =
                if padded { (at + bytes.len()).next_multiple_of(4) } else { at + bytes.len() };
            file.resize(file.len().max(end), 0);
            file[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let of_records = header.variables.iter().filter(|v| header.is_record(v)).count();
        for (variable, values) in header.variables.iter().zip(&self.data) {
            let bytes = values.to_bytes();
            if !header.is_record(variable) {
                put(variable.begin, &bytes, true);
                continue;
            }
            let slab = header.slab_size(variable).unwrap() as usize;
            for (record, slab) in (0u64..).zip(bytes.chunks(slab)) {
                let at = variable.begin + record * header.record_size().unwrap();
                put(at, slab, of_records > 1);
            }
        }
        file
    }

    /// Writes its file.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }
}

#[cfg(feature = "peers")]
fn is_nan(values: &Values) -> bool {
    match values {
        Values::Float(list) => list.iter().any(|value| value.is_nan()),
        Values::Double(list) => list.iter().any(|value| value.is_nan()),
        _ => false,
    }
}

fn dimensions(draw: &mut Draw, header: &mut Header) {
    let unlimited = draw.below(8);
    for number in 0..draw.below(6) {
        let name = name(draw, header.dimensions.iter().map(|dimension| dimension.name.as_str()));
        let len = if draw.one_in(8) { 20 + draw.below(150) } else { 1 + draw.below(7) };
        let len = if number == unlimited { 0 } else { len };
        header.dimensions.push(Dimension::classic(name, len));
    }
    if header.dimensions.iter().any(Dimension::is_unlimited) {
        header.records = draw.of(&[0, 1, 2, 3, 17]);
    }
}

fn variable(draw: &mut Draw, header: &mut Header) {
    let external = external(draw, header.format);
    let mut dimensions: Vec<u32> = Vec::new();
    let mut elements = 1;
    if !header.dimensions.is_empty() {
        for place in 0..draw.below(5) {
            let index = draw.below(header.dimensions.len() as u64) as usize;
            let dimension = &header.dimensions[index];
            let len = if dimension.is_unlimited() { header.records } else { dimension.len };
            if (place > 0 && dimension.is_unlimited()) || elements * len > 3000 {
                continue;
            }
            elements *= len.max(1);
            dimensions.push(index as u32);
        }
    }
    // Now and then a coordinate variable.
    let taken = |name: &str| header.variables.iter().any(|variable| variable.name == name);
    let first = dimensions.first().map(|&index| header.dimensions[index as usize].name.clone());
    let name = match first {
        Some(first) if draw.one_in(3) && !taken(&first) => {
            dimensions.truncate(1 + draw.below(2) as usize);
            first
        }
        _ => name(draw, header.variables.iter().map(|variable| variable.name.as_str())),
    };
    let count = draw.below(4);
    let mut attributes = attributes(draw, header.format, count);
    let mut add = |name: &str, values: Values| {
        attributes.retain(|attribute| attribute.name != name);
        attributes.push(Attribute { name: name.into(), values });
    };
    if draw.one_in(3) {
        let fill = values(draw, external, 1);
        add("_FillValue", fill);
    }
    if !draw.tame && draw.one_in(6) {
        let format = match external {
            Type::Float | Type::Double => draw.of(&["%.3f", "%12.4e", "%+.2g", "%G m", "%5.1f%%"]),
            Type::Char => draw.of(&["%s", "%c", "%d"]),
            Type::Int64 | Type::UInt64 => draw.of(&["%lld", "%#llx", "%d", "%20llu"]),
            _ => draw.of(&["%d", "%05d", "0x%x", "%-4d|", "%u", "%c", "x"]),
        };
        add("C_format", format.into());
    }
    let (stated_size, begin) = (0, 0);
    header.variables.push(Variable {
        attributes,
        stated_size,
        begin,
        ..Variable::new(name, external, dimensions)
    });
}

fn attributes(draw: &mut Draw, format: Format, count: u64) -> Vec<Attribute> {
    let mut list: Vec<Attribute> = Vec::new();
    for _ in 0..count {
        let name = name(draw, list.iter().map(|attribute| attribute.name.as_str()));
        let external = external(draw, format);
        let len = draw.of(&[0, 1, 1, 2, 3, 5, 40]);
        // This one must fit its variable, which is seen to elsewhere.
        if name != "_FillValue" {
            list.push(Attribute { name, values: values(draw, external, len) });
        }
    }
    list
}

fn external(draw: &mut Draw, format: Format) -> Type {
    let known = if format == Format::Cdf5 { 11 } else { 6 };
    draw.of(&Type::ALL[..known])
}

/// A name that is not taken, often an odd one.
fn name<'n>(draw: &mut Draw, taken: impl Iterator<Item = &'n str>) -> String {
    // The last are words of CDL.
    const PLAIN: [&str; 16] = [
        "x",
        "y",
        "time",
        "lat",
        "level_2",
        "units",
        "a.b-c@d+e",
        "a_long_name_for_something_small",
        "data",
        "variables",
        "dimensions",
        "group",
        "types",
        "_FillValue",
        "byte",
        "nan",
    ];
    const PARTS: [&str; 30] = [
        "a", "Z", "7", "_", " ", "!", "\"", "#", "$", "%", "&", "'", "(", ")", "*", ",", ":", ";",
        "<", "=", ">", "?", "[", "]", "\\", "^", "`", "{|}", "~", "é",
    ];
    let taken: Vec<&str> = taken.collect();
    loop {
        let mut name = String::new();
        if draw.one_in(2) {
            let plain = if draw.tame { &PLAIN[..8] } else { &PLAIN };
            name.push_str(draw.of(plain));
        } else {
            for _ in 0..=draw.below(9) {
                name.push_str(draw.of(&PARTS));
            }
            if draw.one_in(3) {
                name.push_str(draw.of(&["ß", "日本", "🌊", "Å"]));
            }
        }
        if check_name(&name).is_ok() && !taken.contains(&name.as_str()) {
            return name;
        }
        if taken.contains(&name.as_str()) {
            name.push_str(&draw.below(1000).to_string());
            if !taken.contains(&name.as_str()) && check_name(&name).is_ok() {
                return name;
            }
        }
    }
}

fn values(draw: &mut Draw, external: Type, len: usize) -> Values {
    macro_rules! integers {
        ($variant:ident, $type:ty, $fill:expr) => {{
            let mut one = || match draw.below(6) {
                0 => <$type>::MIN,
                1 => <$type>::MAX,
                2 => $fill,
                3 => draw.bits() as $type,
                _ => draw.below(100) as $type,
            };
            Values::$variant((0..len).map(|_| one()).collect())
        }};
    }
    macro_rules! floats {
        ($variant:ident, $type:ident, $bits:ident) => {{
            let fill = 9.969_209_968_386_869e36_f64 as $type;
            let mut one = || match draw.below(14) {
                0 => $type::NAN,
                1 => $type::INFINITY,
                2 => $type::NEG_INFINITY,
                3 => fill,
                4 => $type::from_bits(fill.to_bits() + draw.below(4) as $bits),
                5 => $type::from_bits(draw.bits() as $bits),
                6 => -0.0,
                7 => $type::from_bits(draw.below(1000) as $bits),
                8 => draw.below(1000) as $type / 10.0,
                9 => draw.bits() as $type,
                10 => -(draw.below(1 << 30) as $type) / 1e12,
                11 => (10.0 as $type).powi(draw.below(60) as i32 - 30),
                _ => draw.below(50) as $type,
            };
            Values::$variant((0..len).map(|_| one()).collect())
        }};
    }
    match external {
        Type::Byte => integers!(Byte, i8, -127),
        Type::Short => integers!(Short, i16, -32767),
        Type::Int => integers!(Int, i32, -2_147_483_647),
        Type::UByte => integers!(UByte, u8, 255),
        Type::UShort => integers!(UShort, u16, 65535),
        Type::UInt => integers!(UInt, u32, u32::MAX),
        Type::Int64 => integers!(Int64, i64, -9_223_372_036_854_775_806),
        Type::UInt64 => integers!(UInt64, u64, 18_446_744_073_709_551_614),
        Type::Float => floats!(Float, f32, u32),
        Type::Double => floats!(Double, f64, u64),
        Type::Char => {
            let wild = draw.one_in(3);
            let mut text: Vec<u8> = (0..len)
                .map(|_| match draw.below(if wild { 5 } else { 40 }) {
                    0 => draw.bits() as u8,
                    1 => draw.of(b"\n\t\"'\\\r\x08\x0b\x0c\0\x7f"),
                    _ => b' ' + draw.below(95) as u8,
                })
                .collect();
            if draw.one_in(3) {
                let from = draw.below(len as u64 + 1) as usize;
                text[from..].fill(0);
            }
            Values::Char(text)
        }
        other => unreachable!("{other} is in no classic file"),
    }
}
