//! Prints the data of a variable: rows of values, in lines of bounded length.

use std::io::{self, Write};

use super::c_format::CFormat;
use super::definitions::{DOUBLE_DIGITS, FLOAT_DIGITS};
use super::element::{Element, Style};
use super::text::{self, TextRow};
use super::time::Times;
use super::{BATCH, CdlError, DumpOptions, ReadValues};
use crate::format::{Header, Type, Values, Variable};
use crate::slab_batches::SlabBatches;
use crate::value::default_fill;

/// Prints the data of a variable that is not empty.
pub(super) fn print<E>(
    out: &mut dyn Write,
    header: &Header,
    index: usize,
    options: &DumpOptions,
    times: Option<&Times>,
    read: &mut ReadValues<'_, E>,
) -> Result<(), CdlError<E>> {
    let Some(variable) = header.variables.get(index) else { return Ok(()) };
    let shape = header.shape(variable);
    out.write_all(b"\n ")?;
    text::name(out, &variable.name)?;
    let position = if shape.len() <= 1 {
        out.write_all(b" = ")?;
        variable.name.len() + 4
    } else {
        out.write_all(b" =\n  ")?;
        2
    };
    let style = style(variable, options);
    let is_text =
        variable.external == Type::Char && style.format.as_ref().is_none_or(CFormat::is_plain_text);
    let fill = fill(variable);
    let columns = shape.last().copied().unwrap_or(1);
    let elements = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    // Beyond 2⁶⁴ elements the last row is never reached.
    let rows = elements.unwrap_or(u64::MAX) / columns.max(1);
    let line = LineWriter { out, position, most: options.line.saturating_sub(2) };
    let mut rows = RowPrinter { line, columns, column: 0, left: rows };
    let mut text = TextRow::default();
    let mut available = options.available.get(index).copied().unwrap_or(u64::MAX);
    for (start, count) in SlabBatches::new(&shape, BATCH) {
        if available == 0 {
            return Ok(rows.end_truncated(
                is_text,
                elements.unwrap_or(u64::MAX),
                options.available[index],
            )?);
        }
        let mut values = read(index, &start, &count).map_err(CdlError::Read)?;
        let wanted = count.iter().product();
        if values.external() != variable.external || values.len() as u64 != wanted {
            let (got, external) = (values.len(), values.external());
            let variable = variable.name.clone();
            return Err(CdlError::Values { variable, wanted, got, external });
        }
        values.truncate(usize::try_from(available).unwrap_or(usize::MAX));
        let is_truncated = values.len() as u64 != wanted;
        available -= values.len() as u64;
        match &values {
            Values::Char(bytes) if is_text => rows.text(&mut text, bytes)?,
            _ => match times.filter(|_| variable.external != Type::Char) {
                Some(times) => print_dates(&mut rows, &values, fill.as_ref(), times)?,
                None => print_values(&mut rows, &values, fill.as_ref(), &style)?,
            },
        }
        if is_truncated {
            return Ok(rows.end_truncated(
                is_text,
                elements.unwrap_or(u64::MAX),
                options.available[index],
            )?);
        }
    }
    Ok(())
}

/// Prints values of any type.
fn print_values(
    rows: &mut RowPrinter<'_>,
    values: &Values,
    fill: Option<&Values>,
    style: &Style,
) -> io::Result<()> {
    macro_rules! print {
        ($($variant:ident),+) => {
            match (values, fill) {
                // A character is printed as a signed number.
                (Values::Char(list), fill) => {
                    let list: Vec<i8> = list.iter().map(|&byte| byte as i8).collect();
                    let fill = match fill {
                        Some(Values::Char(fill)) => fill.first().map(|&byte| byte as i8),
                        _ => None,
                    };
                    rows.values(&list, fill, style)
                }
                $((Values::$variant(list), Some(Values::$variant(fill))) => {
                    rows.values(list, fill.first().copied(), style)
                })+
                $((Values::$variant(list), _) => rows.values(list, None, style),)+
            }
        };
    }
    print!(Byte, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64)
}

/// Prints values that are times.
#[expect(clippy::cast_lossless, reason = "not of all of these types")]
fn print_dates(
    rows: &mut RowPrinter<'_>,
    values: &Values,
    fill: Option<&Values>,
    times: &Times,
) -> io::Result<()> {
    macro_rules! print {
        ($($variant:ident),+) => {
            match values {
                Values::Char(_) => Ok(()),
                $(Values::$variant(list) => {
                    let fill = match fill {
                        Some(Values::$variant(fill)) => fill.first().copied(),
                        _ => None,
                    };
                    rows.each(list, |text, value| {
                        if fill.is_some_and(|fill| value.is_fill(fill)) {
                            text.push(b'_');
                        } else {
                            text.extend_from_slice(times.shown(value as f64).as_bytes());
                        }
                    })
                })+
            }
        };
    }
    print!(Byte, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64)
}

/// The style in which the values of a variable are printed.
fn style(variable: &Variable, options: &DumpOptions) -> Style {
    let (asked, usual) = match variable.external {
        Type::Float => (options.precision.float, FLOAT_DIGITS),
        _ => {
            (options.precision.double.filter(|_| variable.external == Type::Double), DOUBLE_DIGITS)
        }
    };
    let own = variable.attributes.iter().find(|attribute| attribute.name == "C_format");
    let format = own.and_then(|attribute| match &attribute.values {
        Values::Char(text) if asked.is_none() => CFormat::parse(text),
        _ => None,
    });
    Style { format, digits: asked.unwrap_or(usual).into() }
}

/// The value that is printed as `_`: the variable's fill value, or that of its type. Bytes have no
/// default, since any may be data.
fn fill(variable: &Variable) -> Option<Values> {
    let external = variable.external;
    let own = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
    let own = own.map(|attribute| &attribute.values);
    if let Some(own) = own.filter(|own| own.external() == external && own.len() == 1) {
        return Some(own.clone());
    }
    if matches!(external, Type::Byte | Type::UByte) {
        return None;
    }
    let size = external.size() as usize;
    Some(Values::from_bytes(external, default_fill(external).get(..size)?))
}

/// Breaks lines at a maximum length.
struct LineWriter<'w> {
    out: &'w mut dyn Write,
    /// Bytes in the line.
    position: usize,
    /// Bytes of a line at most.
    most: usize,
}

impl LineWriter<'_> {
    /// Prints a token, on a new line if the current one is full; a delimiter stays on the line.
    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        if text.len() + self.position > self.most && text.len() > 2 {
            self.out.write_all(b"\n    ")?;
            self.position = 4;
        }
        self.position += text.len();
        self.out.write_all(text)
    }
}

/// Prints rows of values, one for each index of all but the last dimension.
struct RowPrinter<'w> {
    line: LineWriter<'w>,
    columns: u64,
    /// The next value's column.
    column: u64,
    /// Rows that are not complete yet.
    left: u64,
}

impl RowPrinter<'_> {
    fn values<T: Element>(
        &mut self,
        values: &[T],
        fill: Option<T>,
        style: &Style,
    ) -> io::Result<()> {
        self.each(values, |text, value| {
            if fill.is_some_and(|fill| value.is_fill(fill)) {
                text.push(b'_');
            } else {
                value.print(text, style);
            }
        })
    }

    fn each<T: Copy>(
        &mut self,
        values: &[T],
        mut print: impl FnMut(&mut Vec<u8>, T),
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for &value in values {
            text.clear();
            print(&mut text, value);
            self.column += 1;
            if self.column < self.columns {
                text.extend_from_slice(b", ");
                self.line.put(&text)?;
            } else {
                self.line.put(&text)?;
                self.end_row()?;
            }
        }
        Ok(())
    }

    fn text(&mut self, row: &mut TextRow, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.column == 0 {
                self.line.out.write_all(b"\"")?;
            }
            let remaining = usize::try_from(self.columns - self.column).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(remaining.min(bytes.len()));
            row.put(self.line.out, part)?;
            self.column += part.len() as u64;
            bytes = rest;
            if self.column == self.columns {
                *row = TextRow::default();
                self.line.out.write_all(b"\"")?;
                self.end_row()?;
            }
        }
        Ok(())
    }

    /// Ends a variable of a truncated file. The text in place of the missing values is not valid
    /// CDL.
    fn end_truncated(&mut self, is_text: bool, elements: u64, available: u64) -> io::Result<()> {
        let out = &mut self.line.out;
        if is_text && self.column > 0 {
            out.write_all(b"\", ")?;
        }
        let missing = elements - available;
        let (values, are) = if elements == 1 { ("value", "is") } else { ("values", "are") };
        writeln!(out, "<{missing} of {elements} {values} {are} not in the file> ;")
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.column = 0;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return self.line.out.write_all(b" ;\n");
        }
        self.line.position = 2;
        self.line.out.write_all(b",\n  ")
    }
}
