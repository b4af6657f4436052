//! Compiles the shim, which knows what only C can know of an MPI, with the compiler wrapper that
//! `MPICC` names.

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/types/types.c");
    println!("cargo::rerun-if-env-changed=MPICC");
    #[cfg(feature = "mpi")]
    {
        let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
        cc::Build::new()
            .compiler(&compiler)
            .file("src/shim.c")
            .warnings(true)
            .compile("striate_mpiio_shim");
        // Linked by an attribute in the source, because tests have it in them without the library.
        cc::Build::new()
            .compiler(&compiler)
            .file("src/types/types.c")
            .warnings(true)
            .cargo_metadata(false)
            .compile("striate_mpiio_types");
        let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
        println!("cargo::rustc-link-search=native={out}");
    }
}
