//! Special attributes, which are not in the file but say how it is stored: `ncdump -s`.

use std::io;
use std::ops::ControlFlow;

use striate_hdf5::model::{ByteOrder, Class, Fill, Filter, Layout, ObjectKind};
use striate_hdf5::netcdf::NetcdfKind;
use striate_hdf5::{Error, Source};

use super::{FileText, PrintedType, kind};
use crate::cdl::CdlError;
use crate::cdl::rows::LineWriter;
use crate::cdl::text;

/// Registered numbers of filters.
const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const SZIP: u16 = 4;
/// The options of szip that programs set.
const SZIP_OPTIONS: u32 = 4 | 8 | 32;

/// Attributes of datasets by which netCDF-C tells a file of its own. Two are needed.
const MARKS: [&[u8]; 14] = [
    b"CLASS",
    b"DIMENSION_LIST",
    b"NAME",
    b"REFERENCE_LIST",
    b"_ARRAY_DIMENSIONS",
    b"_Codecs",
    b"_Format",
    b"_IsNetcdf4",
    b"_NCProperties",
    b"_NCZARR_ATTR",
    b"_Netcdf4Coordinates",
    b"_Netcdf4Dimid",
    b"_SuperblockVersion",
    b"_nc3_strict",
];

impl<S: Source> FileText<'_, S> {
    /// Prints how a variable is stored.
    pub(super) fn print_specials(
        &self,
        line: &mut LineWriter<'_>,
        index: usize,
        of: PrintedType,
    ) -> io::Result<()> {
        let definition = self.definition();
        let (Some(variable), Some(dataset)) =
            (definition.variables.get(index), self.described.objects.get(index))
        else {
            return Ok(());
        };
        let mut put = |name: &str, value: &str| {
            line.indentation()?;
            line.out.write_all(b"\t\t")?;
            text::name(line.out, variable.name.as_bytes())?;
            writeln!(line.out, ":{name} = {value} ;")
        };
        let storage = match &dataset.layout {
            Layout::Compact { .. } => "compact",
            Layout::Contiguous { .. } | Layout::External { .. } => "contiguous",
            Layout::Chunked(_) => "chunked",
            Layout::Virtual { .. } => "virtual",
        };
        put("_Storage", &format!("\"{storage}\""))?;
        if let Layout::Chunked(layout) = &dataset.layout {
            let lengths: Vec<String> = layout.chunk.iter().map(ToString::to_string).collect();
            put("_ChunkSizes", &lengths.join(", "))?;
        }
        let find = |id| dataset.filters.iter().find(|filter| filter.id == id);
        if find(FLETCHER32).is_some() {
            put("_Fletcher32", "\"true\"")?;
        }
        if find(SHUFFLE).is_some() {
            put("_Shuffle", "\"true\"")?;
        }
        if let Some(deflate) = find(DEFLATE) {
            let level = deflate.parameters.first().copied().unwrap_or_default();
            put("_DeflateLevel", &level.to_string())?;
        }
        let others = dataset.filters.iter();
        let others = others.filter(|filter| ![DEFLATE, SHUFFLE, FLETCHER32].contains(&filter.id));
        let others: Vec<String> = others.map(shown).collect();
        if !others.is_empty() {
            put("_Filter", &format!("\"{}\"", others.join("|")))?;
        }
        let order = match &dataset.datatype.class {
            Class::FixedPoint(number) => Some(number.order),
            Class::FloatingPoint(number) => Some(number.order),
            _ => None,
        };
        let is_wide = matches!(of, PrintedType::Classic(external) if external.size() > 1);
        match order.filter(|_| is_wide) {
            Some(ByteOrder::Little) => put("_Endianness", "\"little\"")?,
            Some(ByteOrder::Big) => put("_Endianness", "\"big\"")?,
            _ => {}
        }
        if !matches!(dataset.fill.value, Fill::Value(_)) {
            put("_NoFill", "\"true\"")?;
        }
        Ok(())
    }

    /// Prints what is special about the file.
    pub(super) fn print_hidden(&self, line: &mut LineWriter<'_>) -> Result<(), CdlError<Error>> {
        if let Some(properties) = &self.definition().properties {
            writeln!(line.out, "\t\t:_NCProperties = \"{properties}\" ;")?;
        }
        let version = self.file.superblock().version;
        writeln!(line.out, "\t\t:_SuperblockVersion = {version} ;")?;
        let is_netcdf = self.is_netcdf().map_err(CdlError::Read)?;
        writeln!(line.out, "\t\t:_IsNetcdf4 = {} ;", u8::from(is_netcdf))?;
        Ok(writeln!(line.out, "\t\t:_Format = \"{}\" ;", kind(self.described.kind))?)
    }

    /// What netCDF-C says about the file; wrong for the classic model, and for files in which it
    /// finds too few marks.
    fn is_netcdf(&self) -> Result<bool, Error> {
        if self.described.kind == NetcdfKind::Netcdf4Classic {
            return Ok(false);
        }
        let mut found = 0;
        self.file.visit(&mut |_, object| {
            if object.kind == ObjectKind::Dataset {
                let attributes = self.file.attributes(object)?;
                let is_mark = |name: &[u8]| MARKS.contains(&name);
                found += attributes.iter().filter(|it| is_mark(it.name.as_bytes())).count();
            }
            Ok(if found < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(found >= 2)
    }
}

/// A filter and its parameters.
fn shown(filter: &Filter) -> String {
    let mut parameters = filter.parameters.clone();
    if filter.id == SZIP {
        // The rest is for the decoder.
        parameters.truncate(2);
        if let Some(options) = parameters.first_mut() {
            *options &= SZIP_OPTIONS;
        }
    }
    let numbers = std::iter::once(u32::from(filter.id)).chain(parameters);
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}
