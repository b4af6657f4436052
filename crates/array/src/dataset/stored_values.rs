//! Strings, sequences and elements of types of users in calls.
//!
//! Elements of a fixed size take the path of numbers: [`crate::Raw`] is their bytes. Those of
//! variable length are [`Elements`], which have their values beside them; what becomes of them is
//! in `netcdf4/heap_values.rs`.

use striate_hdf5::write::Elements;

use super::Dataset;
use crate::access::IoMode;
use crate::format::{ByteOrder, StoredValues, Type, UserType, UserTypeClass};
use crate::netcdf4::HeapWrite;
use crate::slab::Direction;
use crate::value::{Conversion, InRange, Kind, Raw, Value, default_fill};
use crate::{ArrayError, Pending, Sink, Slab, UserTypeId, VariableId};

impl Dataset {
    /// The types that were defined, in the order of their definition.
    pub fn types(&self) -> impl Iterator<Item = UserTypeId> + use<> {
        self.header().user_type_ids().collect::<Vec<_>>().into_iter()
    }

    /// A type that was defined.
    pub fn user_type(&self, id: UserTypeId) -> Result<&UserType, ArrayError> {
        let unknown =
            || ArrayError::Unknown { what: "type", name: format!("number {}", id.index()) };
        self.header().user_type(id.into()).ok_or_else(unknown)
    }

    pub(super) fn check_writable(
        &self,
        call: &'static str,
        variable: VariableId,
    ) -> Result<(), ArrayError> {
        let refusal = self.state.netcdf4.as_ref().and_then(|it| it.refusal(variable.index()));
        if self.state.mode.is_writable() && refusal.is_none() {
            return Ok(());
        }
        let variable = self.known(variable)?.name.clone();
        let reason = refusal.unwrap_or("the dataset was opened for reading only").into();
        Err(ArrayError::Access { call, variable, reason })
    }

    /// Refuses the descriptors of values of variable length, which mean nothing to programs.
    pub(super) fn check_fixed_size<T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
    ) -> Result<(), ArrayError> {
        let known = self.known(variable)?;
        if T::KIND != Kind::Raw || !self.header().has_variable_length(known.external) {
            return Ok(());
        }
        let reason = "its elements have values of variable length: use the calls for strings, \
                      sequences or elements";
        Err(ArrayError::Access { call, variable: known.name.clone(), reason: reason.into() })
    }

    /// Refuses values of variable length of a variable that is divided into partitions: they would
    /// be in the heaps of another file.
    fn check_undivided(&self, call: &'static str, variable: VariableId) -> Result<(), ArrayError> {
        let partitioned = self.partitioned.as_ref();
        if !partitioned.is_some_and(|partitioned| partitioned.divides(variable.index())) {
            return Ok(());
        }
        let reason = "it is divided into partitions, which have no values of variable length";
        let variable = self.known(variable)?.name.clone();
        Err(ArrayError::Access { call, variable, reason: reason.into() })
    }

    /// Writes elements of a string or user-defined type. Independent: values of variable length
    /// wait in memory until the next collective write, [`Dataset::sync`] or [`Dataset::close`].
    pub fn put_elements(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        elements: &Elements,
    ) -> Result<(), ArrayError> {
        let mut pending = Pending::new();
        self.begin_elements("put_elements", &mut pending, variable, slab, elements)?;
        self.wait(pending)
    }

    /// Writes elements of a string or user-defined type. Collective.
    pub fn put_elements_all(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        elements: &Elements,
    ) -> Result<(), ArrayError> {
        let mut pending = Pending::new();
        let begun = self.begin_elements("put_elements_all", &mut pending, variable, slab, elements);
        self.state.agree(begun)?;
        self.wait_all(pending)
    }

    /// Starts a write of elements of a string or user-defined type, which are copied.
    pub fn iput_elements(
        &self,
        pending: &mut Pending<'_>,
        variable: VariableId,
        slab: &Slab,
        elements: &Elements,
    ) -> Result<(), ArrayError> {
        self.begin_elements("iput_elements", pending, variable, slab, elements)
    }

    fn begin_elements(
        &self,
        call: &'static str,
        pending: &mut Pending<'_>,
        variable: VariableId,
        slab: &Slab,
        elements: &Elements,
    ) -> Result<(), ArrayError> {
        let known = self.known(variable)?;
        if !self.header().has_variable_length(known.external) {
            return self.bput(pending, variable, slab, Raw::slice(elements.as_bytes()));
        }
        self.check_writable(call, variable)?;
        self.check_undivided(call, variable)?;
        let refuse =
            |reason: String| Err(ArrayError::Access { call, variable: known.name.clone(), reason });
        let checked = self.accessed(variable)?.checked(call, Direction::Write, slab)?;
        let size = known.external.size();
        if elements.len() as u64 != checked.elements * size {
            let (given, wanted) = (elements.len() as u64 / size, checked.elements);
            return refuse(format!("{given} elements in memory for {wanted} in the file"));
        }
        let fits = self
            .state
            .netcdf4
            .as_ref()
            .is_some_and(|netcdf4| netcdf4.fits(variable.index(), elements));
        if !fits {
            return refuse("the values are not those of its type".into());
        }
        pending.begin_on(self.stamp)?;
        let (hyperslab, growth) = (checked.hyperslab, checked.growth);
        let elements = elements.clone();
        pending.heap_writes.push(HeapWrite { call, variable, hyperslab, growth, elements });
        Ok(())
    }

    /// The bytes of elements as they are in the file; those of values of variable length are
    /// descriptors.
    fn raw_elements(
        &mut self,
        call: &'static str,
        variable: VariableId,
        slab: &Slab,
        mode: IoMode,
    ) -> Result<Vec<u8>, ArrayError> {
        let collective = mode == IoMode::Collective;
        let begun = self.accessed(variable).and_then(|accessed| {
            let count = accessed.count(call, slab)?;
            let size = accessed.header.variables[variable.index()].external.size();
            self.allocate::<u8>(variable, &[count.as_slice(), &[size]].concat())
        });
        let (mut bytes, failed) = match begun {
            Ok(bytes) => (bytes, None),
            Err(error) if collective => (Vec::new(), Some(error)),
            Err(error) => return Err(error),
        };
        let sink = Sink::new(Raw::slice_mut(&mut bytes));
        let access = match failed {
            Some(error) => Err(error),
            None => self.accessed(variable).and_then(|it| it.get(call, slab, sink)),
        };
        let accesses = access.map(|access| vec![access]);
        if collective {
            self.get_collective(accesses)?;
        } else {
            self.get_independent(accesses?)?;
        }
        Ok(bytes)
    }

    /// Reads elements of a string or user-defined type. Independent.
    pub fn elements(&mut self, variable: VariableId, slab: &Slab) -> Result<Elements, ArrayError> {
        let bytes = self.raw_elements("elements", variable, slab, IoMode::Independent)?;
        self.values_of(variable, slab, bytes)
    }

    /// Reads elements of a string or user-defined type. Collective.
    pub fn elements_all(
        &mut self,
        variable: VariableId,
        slab: &Slab,
    ) -> Result<Elements, ArrayError> {
        let bytes = self.raw_elements("elements_all", variable, slab, IoMode::Collective)?;
        let elements = self.values_of(variable, slab, bytes);
        self.state.agree(elements)
    }

    fn values_of(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        bytes: Vec<u8>,
    ) -> Result<Elements, ArrayError> {
        if !self.header().has_variable_length(self.known(variable)?.external) {
            return Ok(Elements::fixed(bytes));
        }
        self.check_undivided("elements", variable)?;
        let mut elements = self.load_heap_values(variable.index(), &bytes)?;
        self.overlay_heap_values(variable, slab, &mut elements)?;
        Ok(elements)
    }

    /// The elements of strings, if the variable has that type.
    fn strings_as_elements<S: AsRef<[u8]>>(
        &self,
        call: &'static str,
        variable: VariableId,
        strings: &[S],
    ) -> Result<Elements, ArrayError> {
        let known = self.known(variable)?;
        let refuse =
            |reason: String| Err(ArrayError::Access { call, variable: known.name.clone(), reason });
        if let Some(zero) = strings.iter().position(|text| text.as_ref().contains(&0)) {
            return refuse(format!("string number {zero} has a zero byte, which would end it"));
        }
        match known.external {
            Type::String => Ok(Elements::strings(strings)),
            Type::Text(size) => {
                let mut elements = Elements::new();
                for text in strings.iter().map(AsRef::as_ref) {
                    let Some(rest) = (size as usize).checked_sub(text.len()) else {
                        let has = text.len();
                        return refuse(format!("a string of {has} bytes, where {size} have room"));
                    };
                    elements.push_fixed(text);
                    elements.push_fixed(&vec![0; rest]);
                }
                Ok(elements)
            }
            _ => refuse("it has no strings".into()),
        }
    }

    /// Writes strings (netCDF's `NC_STRING`). Independent, see [`Dataset::put_elements`].
    pub fn put_strings<S: AsRef<[u8]>>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        strings: &[S],
    ) -> Result<(), ArrayError> {
        let elements = self.strings_as_elements("put_strings", variable, strings)?;
        self.put_elements(variable, slab, &elements)
    }

    /// Writes strings (netCDF's `NC_STRING`). Collective.
    pub fn put_strings_all<S: AsRef<[u8]>>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        strings: &[S],
    ) -> Result<(), ArrayError> {
        let elements = self.strings_as_elements("put_strings_all", variable, strings);
        let elements = self.state.agree(elements)?;
        self.put_elements_all(variable, slab, &elements)
    }

    /// Reads strings as bytes, which need not be UTF-8. Independent.
    pub fn string_bytes(
        &mut self,
        variable: VariableId,
        slab: &Slab,
    ) -> Result<Vec<Vec<u8>>, ArrayError> {
        let of = self.known(variable)?.external;
        if !matches!(of, Type::String | Type::Text(_)) {
            let variable = self.known(variable)?.name.clone();
            let reason = "it has no strings".into();
            return Err(ArrayError::Access { call: "strings", variable, reason });
        }
        let stored = StoredValues { of, elements: self.elements(variable, slab)? };
        let texts = stored.texts().unwrap_or_default();
        Ok(texts.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Reads strings. Those that were never written are the fill value, by default empty.
    /// Independent.
    pub fn strings(
        &mut self,
        variable: VariableId,
        slab: &Slab,
    ) -> Result<Vec<String>, ArrayError> {
        let bytes = self.string_bytes(variable, slab)?;
        let strings: Result<Vec<String>, _> = bytes.into_iter().map(String::from_utf8).collect();
        strings.or_else(|error| {
            let variable = self.known(variable)?.name.clone();
            let reason = format!("a string is not UTF-8 ({error}): string_bytes reads it");
            Err(ArrayError::Access { call: "strings", variable, reason })
        })
    }

    /// The conversion of the values of a variable's sequences.
    fn sequence_conversion<T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
    ) -> Result<Conversion, ArrayError> {
        let header = self.header();
        let known = self.known(variable)?;
        let Some(UserTypeClass::Sequence(base)) =
            header.user_type(known.external).map(|one| &one.class)
        else {
            let reason = "it has no sequences".into();
            return Err(ArrayError::Access { call, variable: known.name.clone(), reason });
        };
        let (memory, external) = (T::KIND, header.base_type(*base));
        if memory == Kind::Raw || !memory.converts(external) {
            let variable = known.name.clone();
            return Err(ArrayError::Kind { variable, external: *base, memory });
        }
        let byte_order =
            if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        let (format, fill) = (header.format, default_fill(external));
        Ok(Conversion { memory, external, format, fill, byte_order })
    }

    fn sequences_as_elements<T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
        sequences: &[Vec<T>],
    ) -> Result<(Elements, InRange), ArrayError> {
        let conversion = self.sequence_conversion::<T>(call, variable)?;
        let size = conversion.external.size() as usize;
        let mut elements = Elements::new();
        let mut in_range = InRange::All;
        for sequence in sequences {
            let Ok(count) = u32::try_from(sequence.len()) else {
                let variable = self.known(variable)?.name.clone();
                let reason = "a sequence has 2^32 values or more".into();
                return Err(ArrayError::Access { call, variable, reason });
            };
            let mut bytes = vec![0; sequence.len() * size];
            let encoded = conversion.encode(bytemuck::cast_slice(sequence), &mut bytes);
            in_range = in_range.and(encoded);
            elements.push_sequence(count, Elements::fixed(bytes));
        }
        Ok((elements, in_range))
    }

    fn check_all_in_range(
        &self,
        variable: VariableId,
        in_range: InRange,
    ) -> Result<(), ArrayError> {
        match in_range {
            InRange::All => Ok(()),
            InRange::NotAll => {
                Err(ArrayError::Range { variable: self.known(variable)?.name.clone() })
            }
        }
    }

    /// Writes sequences of numbers or text (netCDF's vlen). Independent, see
    /// [`Dataset::put_elements`].
    pub fn put_sequences<T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        sequences: &[Vec<T>],
    ) -> Result<(), ArrayError> {
        let (elements, in_range) =
            self.sequences_as_elements("put_sequences", variable, sequences)?;
        self.put_elements(variable, slab, &elements)?;
        self.check_all_in_range(variable, in_range)
    }

    /// Writes sequences of numbers or text (netCDF's vlen). Collective.
    pub fn put_sequences_all<T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        sequences: &[Vec<T>],
    ) -> Result<(), ArrayError> {
        let elements = self.sequences_as_elements("put_sequences_all", variable, sequences);
        let (elements, in_range) = self.state.agree(elements)?;
        self.put_elements_all(variable, slab, &elements)?;
        self.state.agree(self.check_all_in_range(variable, in_range))
    }

    /// Reads sequences of numbers or text. Independent.
    pub fn sequences<T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
    ) -> Result<Vec<Vec<T>>, ArrayError> {
        let conversion = self.sequence_conversion::<T>("sequences", variable)?;
        let of = self.known(variable)?.external;
        let elements = self.elements(variable, slab)?;
        let (size, of_one) = (of.size() as usize, conversion.external.size() as usize);
        let mut in_range = InRange::All;
        let mut sequences = Vec::with_capacity(elements.len() / size);
        for at in (0..elements.len()).step_by(size) {
            let bytes = elements.heap_value(at).map_or(&[][..], |(_, value)| value.as_bytes());
            let mut sequence = vec![T::zeroed(); bytes.len() / of_one];
            let decoded = conversion.decode(bytes, bytemuck::cast_slice_mut(&mut sequence));
            in_range = in_range.and(decoded);
            sequences.push(sequence);
        }
        self.check_all_in_range(variable, in_range)?;
        Ok(sequences)
    }
}
