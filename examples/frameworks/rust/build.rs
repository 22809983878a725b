//! Compile the kernels with mucc, and tell the linker where they are.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let source = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../rms_norm.mcu");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let mucc = env::var("MUCC").unwrap_or_else(|_| "mucc".into());
    let status = Command::new(&mucc)
        .arg(&source)
        .arg("-o")
        .arg(out.join("librms_norm.so"))
        .status()
        .unwrap_or_else(|error| panic!("cannot run {mucc}: {error}; set MUCC to the command"));
    assert!(status.success(), "mucc could not compile {}", source.display());
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-env-changed=MUCC");
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=dylib=rms_norm");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", out.display());
}
