//! Prints the data of a variable of a classic file, and values of classic types in any file.

use std::io::{self, Write};

use super::c_format::CFormat;
use super::definitions::{DOUBLE_DIGITS, FLOAT_DIGITS};
use super::element::{Element as _, Style};
use super::rows::{LineWriter, RowPrinter};
use super::text::TextRow;
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
    let mut line = LineWriter::new(out, options.line);
    line.begin_data(variable.name.as_bytes(), shape.len())?;
    let mut printer = ValuePrinter::new(variable, options, times);
    let is_text = printer.is_text;
    let elements = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    let mut rows = RowPrinter::new(&mut line, &shape, &[]);
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
        printer.print(&mut rows, &values)?;
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

/// Prints values of a variable, in its style.
pub(super) struct ValuePrinter<'t> {
    style: Style,
    fill: Option<Values>,
    times: Option<&'t Times>,
    /// Whether characters are printed as strings.
    is_text: bool,
    text: TextRow,
}

impl<'t> ValuePrinter<'t> {
    /// By the attributes of the variable.
    pub(super) fn new(
        variable: &Variable,
        options: &DumpOptions,
        times: Option<&'t Times>,
    ) -> Self {
        let style = style(variable, options);
        let is_char = variable.external == Type::Char;
        let is_text = is_char && style.format.as_ref().is_none_or(CFormat::is_plain_text);
        let times = times.filter(|_| !is_char);
        Self { style, fill: fill(variable), times, is_text, text: TextRow::default() }
    }

    /// Prints the next values.
    pub(super) fn print(
        &mut self,
        rows: &mut RowPrinter<'_, '_>,
        values: &Values,
    ) -> io::Result<()> {
        match (values, self.times) {
            (Values::Char(bytes), _) if self.is_text => rows.text(&mut self.text, bytes),
            (_, Some(times)) => print_dates(rows, values, self.fill.as_ref(), times),
            (_, None) => print_values(rows, values, self.fill.as_ref(), &self.style),
        }
    }
}

/// Prints values of any type.
fn print_values(
    rows: &mut RowPrinter<'_, '_>,
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
                (Values::Stored(stored), _) => {
                    let numbers: Vec<usize> = (0..stored.len()).collect();
                    rows.each(&numbers, |text, number| {
                        text.extend_from_slice(stored.shown(number).as_bytes());
                    })
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
    rows: &mut RowPrinter<'_, '_>,
    values: &Values,
    fill: Option<&Values>,
    times: &Times,
) -> io::Result<()> {
    macro_rules! print {
        ($($variant:ident),+) => {
            match values {
                Values::Char(_) | Values::Stored(_) => Ok(()),
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
