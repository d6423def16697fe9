//! Which of CUDA's libraries are loaded: stand-ins that tell a version, in folders that settings name and on the loader's
//! path.

use ferrotrace_runtime::Device;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What a child does: tells what it is served by.
#[test]
fn child() {
    if std::env::var_os("LIBRARIES_CHILD").is_some() {
        println!("{}", Device::cpu().report());
    }
}

/// Libraries of `folder`, of which each is `version`.
fn libraries(folder: &Path, version: &str) -> bool {
    std::fs::create_dir_all(folder).expect("made");
    let functions = |names: &[&str]| -> String {
        let body = names
            .iter()
            .map(|name| format!("int {name}(void) {{ return 1; }}\n"));
        body.collect()
    };
    let build = |file: &str, source: String| {
        let path = folder.join("source.c");
        std::fs::write(&path, source).expect("written");
        let out = folder.join(file);
        let status = Command::new("gcc")
            .args(["-shared", "-fPIC", "-w", "-o"])
            .args([&out, &path])
            .arg(format!("-Wl,-soname,{file}"))
            .arg("-ldl")
            .status();
        status.is_ok_and(|status| status.success())
    };
    let (major, minor) = version.split_once('.').expect("two numbers");
    let cudnn = functions(&[
        "cudnnCreate",
        "cudnnSetStream",
        "cudnnBackendCreateDescriptor",
        "cudnnBackendDestroyDescriptor",
        "cudnnBackendExecute",
        "cudnnBackendFinalize",
        "cudnnBackendGetAttribute",
        "cudnnBackendSetAttribute",
    ]);
    // As the real one, it loads a part by its name; the version is the part's.
    let whole = "void *dlopen(const char *, int); void *dlsym(void *, const char *);\n\
                 unsigned long cudnnGetVersion(void) {\n\
                 void *part = dlopen(\"libcudnn_graph.so.9\", 2);\n\
                 if (!part) return 0;\n\
                 unsigned long (*version)(void) = dlsym(part, \"version_of_part\");\n\
                 return version(); }\n";
    let (tens, ones): (u64, u64) = (major.parse().expect("one"), minor.parse().expect("one"));
    let number = match tens {
        0..9 => tens * 1000 + ones * 100,
        _ => tens * 10_000 + ones * 100,
    };
    let part = format!("unsigned long version_of_part(void) {{ return {number}; }}\n");
    let nvrtc = functions(&[
        "nvrtcCreateProgram",
        "nvrtcDestroyProgram",
        "nvrtcCompileProgram",
        "nvrtcGetCUBINSize",
        "nvrtcGetCUBIN",
        "nvrtcGetPTXSize",
        "nvrtcGetPTX",
        "nvrtcGetProgramLogSize",
        "nvrtcGetProgramLog",
    ]) + &format!(
        "int nvrtcVersion(int *a, int *b) {{ *a = {major}; *b = {minor}; return 0; }}\n"
    );
    let blas = functions(&[
        "cublasLtCreate",
        "cublasLtMatmul",
        "cublasLtMatmulAlgoGetHeuristic",
        "cublasLtMatmulDescCreate",
        "cublasLtMatmulDescDestroy",
        "cublasLtMatmulDescSetAttribute",
        "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceDestroy",
        "cublasLtMatmulPreferenceSetAttribute",
        "cublasLtMatrixLayoutCreate",
        "cublasLtMatrixLayoutDestroy",
        "cublasLtMatrixLayoutSetAttribute",
    ]) + &format!("unsigned long cublasLtGetVersion(void) {{ return {number}; }}\n");
    build("libcudnn_graph.so.9", part)
        && build("libcudnn.so.9", whole.to_owned() + &cudnn)
        && build("libcudnn.so", whole.to_owned() + &cudnn)
        && build("libnvrtc.so", nvrtc.clone())
        && build("libnvrtc.so.13", nvrtc)
        && build("libcublasLt.so", blas)
}

/// A folder with libraries of several versions, or none where there is no gcc.
fn folders(versions: &[&str]) -> Option<TempDir> {
    let dir = tempfile::tempdir().expect("a folder");
    let all = |version: &&str| libraries(&dir.path().join(version), version);
    if !versions.iter().all(all) {
        eprintln!("skipped: no gcc");
        return None;
    }
    Some(dir)
}

/// What a child with these settings reports in the line of this name, and what it complains of.
fn report(line: &str, path: &Path, settings: &[(&str, PathBuf)]) -> (String, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("LIBRARIES_CHILD", "1")
        .env("LD_LIBRARY_PATH", path)
        .env_remove("FERROTRACE_NVRTC")
        .env_remove("FERROTRACE_CUDNN")
        .env("FERROTRACE_CACHE", "0")
        .envs(settings.iter().map(|(name, value)| (name, value)));
    let output = command.output().expect("runs");
    let (said, errors) = (output.stdout, output.stderr);
    let (said, errors) = (
        String::from_utf8_lossy(&said),
        String::from_utf8_lossy(&errors),
    );
    assert!(output.status.success(), "{said}{errors}");
    let prefix = format!("{line}: ");
    let told = said.lines().find_map(|told| told.strip_prefix(&prefix));
    let told = told.unwrap_or_else(|| panic!("{said}{errors}"));
    (told.to_owned(), errors.into_owned())
}

#[test]
fn the_folder_that_is_named_decides_against_the_loader_s_path() {
    let Some(dir) = folders(&["9.5", "9.11"]) else {
        return;
    };
    let (path, named) = (dir.path().join("9.5"), dir.path().join("9.11"));
    for (line, variable) in [
        ("cudnn", "FERROTRACE_CUDNN"),
        ("nvrtc", "FERROTRACE_NVRTC"),
        ("cublas", "FERROTRACE_NVRTC"),
    ] {
        let (found, _) = report(line, &path, &[]);
        assert!(
            found.contains("9.5, ") && found.contains("/9.5/"),
            "{found}"
        );
        let (found, errors) = report(line, &path, &[(variable, named.clone())]);
        assert!(
            found.contains("9.11, ") && found.contains("/9.11/"),
            "{line}: {found}"
        );
        assert_eq!(errors, "");
    }
}

#[test]
fn a_folder_that_will_not_do_is_told_of_and_nothing_else_is_taken() {
    let Some(dir) = folders(&["9.5", "8.9"]) else {
        return;
    };
    let (path, empty) = (dir.path().join("9.5"), dir.path().join("empty"));
    std::fs::create_dir(&empty).expect("made");
    let of = |folder: &Path| report("cudnn", &path, &[("FERROTRACE_CUDNN", folder.to_owned())]);
    let (found, errors) = of(&empty);
    assert!(found.starts_with("none that is used from"), "{found}");
    assert_eq!(errors.matches("FERROTRACE_CUDNN").count(), 1, "{errors}");
    assert!(errors.contains("no libcudnn.so there"), "{errors}");
    let (found, errors) = of(&dir.path().join("8.9"));
    assert!(found.contains("it is version 8.9"), "{found}");
    assert!(errors.contains("it is version 8.9"), "{errors}");
    for word in ["0", "off", "false", "no"] {
        let (found, errors) = of(Path::new(word));
        assert!(found.starts_with("none that is used"), "{found}");
        assert_eq!(errors, "");
    }
    let settings = [("FERROTRACE_NVRTC", empty)];
    let (found, _) = report("nvrtc", &path, &settings);
    assert!(found.starts_with("no compiler"), "{found}");
    // Other libraries may lie beside it, and are looked for elsewhere if they do not.
    let (found, _) = report("cublas", &path, &settings);
    assert!(found.contains("/9.5/"), "{found}");
}
