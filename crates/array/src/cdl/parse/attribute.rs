//! Attributes: their types, and which of them are settings.

use striate_hdf5::write::netcdf::AtomicType;

use super::document::{CdlAttribute, CdlType};
use super::group::Parser;
use super::list::ListSummary;
use super::names::NameKind;
use super::place::{Fault, Parsed, quoted};
use super::statement::AttributeOwner;
use crate::format::check_name;

impl Parser<'_> {
    /// An attribute from its name on. `of` is the type that the text gives.
    pub(super) fn attribute(&mut self, owner: AttributeOwner, of: Option<CdlType>) -> Parsed<()> {
        let (name, at) = self.name("the name of an attribute")?;
        check_name(&name).map_err(|error| Fault::new(at, error.to_string()))?;
        self.mark(b'=')?;
        let values = self.list()?;
        let special = match owner {
            AttributeOwner::Group => self.global_special(&name, values.list, at)?,
            AttributeOwner::Variable(number) => {
                self.variable_special(number, &name, values.list, at)?
            }
        };
        if special {
            return Ok(());
        }
        if let Some(at) = values.fill {
            return Err(Fault::new(at, "the value of an attribute cannot be '_'"));
        }
        let of = self.attribute_type(owner, &name, of, &values, at)?;
        let (number, kind) = match owner {
            AttributeOwner::Group => (self.group, NameKind::AttributeOfGroup),
            AttributeOwner::Variable(number) => (number, NameKind::AttributeOfVariable),
        };
        if !self.names.add(number, kind, &name, 0) {
            return Err(Fault::new(at, format!("there is an attribute {} already", quoted(&name))));
        }
        let attribute = CdlAttribute { name, of, values: values.list };
        let document = &mut self.document;
        let attributes = match owner {
            AttributeOwner::Group => document.groups.get_mut(number).map(|it| &mut it.attributes),
            AttributeOwner::Variable(number) => {
                document.variables.get_mut(number).map(|it| &mut it.attributes)
            }
        };
        if let Some(attributes) = attributes {
            attributes.push(attribute);
        }
        Ok(())
    }

    fn attribute_type(
        &self,
        owner: AttributeOwner,
        name: &str,
        of: Option<CdlType>,
        values: &ListSummary,
        at: usize,
    ) -> Parsed<CdlType> {
        let of = match owner {
            AttributeOwner::Variable(number) if name == "_FillValue" => {
                if values.list.items != 1 {
                    return Err(Fault::new(at, "_FillValue is one value"));
                }
                self.document.variables.get(number).map(|variable| variable.of)
            }
            _ => of,
        };
        let inferred = || values.kind.map(CdlType::Atomic);
        let of = of.or_else(inferred).ok_or_else(|| {
            let problem = "the values of the attribute have no type in common; write the type \
                           before its name";
            Fault::new(at, problem)
        })?;
        if values.list.items == 0 && of != CdlType::Atomic(AtomicType::Char) {
            return Err(Fault::new(at, "only an attribute of type char can have no values"));
        }
        Ok(of)
    }
}
