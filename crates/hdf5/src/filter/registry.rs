//! The numbers of filters that the HDF Group keeps, and their names.
//!
//! A filter below 256 is part of the HDF5 library. All others are plug-ins, whose numbers are
//! registered; an error about one says which plug-in a reader would need.

/// A registered filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Registered {
    pub id: u16,
    pub name: &'static str,
    /// Where the plug-in is kept.
    pub plugin: &'static str,
}

pub(super) const DEFLATE: u16 = 1;
pub(super) const SHUFFLE: u16 = 2;
pub(super) const FLETCHER32: u16 = 3;
pub(super) const SZIP: u16 = 4;
pub(super) const NBIT: u16 = 5;
pub(super) const SCALE_OFFSET: u16 = 6;
pub(super) const BZIP2: u16 = 307;
pub(super) const LZF: u16 = 32000;
pub(super) const BLOSC: u16 = 32001;
pub(super) const LZ4: u16 = 32004;
pub(super) const BITSHUFFLE: u16 = 32008;
pub(super) const ZSTD: u16 = 32015;
pub(super) const BITGROOM: u16 = 32022;
pub(super) const GRANULAR_BITROUND: u16 = 32023;

const fn entry(id: u16, name: &'static str, plugin: &'static str) -> Registered {
    Registered { id, name, plugin }
}

/// In order of their numbers.
const REGISTERED: [Registered; 35] = [
    entry(DEFLATE, "deflate", "part of HDF5"),
    entry(SHUFFLE, "shuffle", "part of HDF5"),
    entry(FLETCHER32, "Fletcher-32", "part of HDF5"),
    entry(SZIP, "szip", "part of HDF5, with libaec"),
    entry(NBIT, "n-bit", "part of HDF5"),
    entry(SCALE_OFFSET, "scale-offset", "part of HDF5"),
    entry(305, "LZO", "PyTables'"),
    entry(BZIP2, "bzip2", "PyTables'"),
    entry(LZF, "LZF", "h5py's"),
    entry(BLOSC, "Blosc", "hdf5-blosc"),
    entry(32002, "MAFISC", "MAFISC of the University of Hamburg"),
    entry(32003, "Snappy", "snappy-cuda"),
    entry(LZ4, "LZ4", "HDF5 LZ4"),
    entry(32005, "APAX", "Samplify's APAX"),
    entry(32006, "CBF", "CBFlib"),
    entry(32007, "JPEG-XR", "jpegHDF5"),
    entry(BITSHUFFLE, "bitshuffle", "bitshuffle"),
    entry(32009, "SPDP", "SPDP of Texas State University"),
    entry(32010, "LPC-Rice", "sonictk's LPC-Rice"),
    entry(32011, "CCSDS-123", "ESA's CCSDS-123"),
    entry(32012, "JPEG-LS", "CharLS for HDF5"),
    entry(32013, "zfp", "H5Z-ZFP"),
    entry(32014, "fpzip", "fpzip for HDF5"),
    entry(ZSTD, "Zstandard", "HDF5Plugin-Zstandard"),
    entry(32016, "B3D", "B3D"),
    entry(32017, "SZ", "H5Z-SZ"),
    entry(32018, "FCIDECOMP", "EUMETSAT's FCIDECOMP"),
    entry(32019, "JPEG", "jpeg for HDF5"),
    entry(32020, "VBZ", "Oxford Nanopore's vbz_compression"),
    entry(32021, "FAPEC", "DAPCOM's FAPEC"),
    entry(BITGROOM, "BitGroom", "the Community Codec Repository's"),
    entry(GRANULAR_BITROUND, "Granular BitRound", "the Community Codec Repository's"),
    entry(32024, "SZ3", "H5Z-SZ3"),
    entry(32026, "Blosc2", "hdf5-blosc2"),
    entry(32028, "SPERR", "H5Z-SPERR"),
];

/// The entry of a number, if it is registered.
pub(super) fn registered(id: u16) -> Option<Registered> {
    let at = REGISTERED.binary_search_by_key(&id, |entry| entry.id).ok()?;
    Some(REGISTERED[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_by_its_number() {
        for entry in REGISTERED {
            assert_eq!(registered(entry.id), Some(entry));
        }
        assert_eq!(registered(0), None);
        assert_eq!(registered(u16::MAX), None);
    }
}
