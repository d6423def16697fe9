//! Attacks of other users on the cache of kernels: each plants code that would give other numbers, and shows that it
//! does not run (`docs/security.md`).

mod scene;

use scene::*;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;
use std::process::Command;

#[test]
fn child() {
    scene::child();
}

/// A scene with another user in it.
fn with_strangers() -> Option<Scene> {
    if !is_root() {
        skip("only root can play another user");
        return None;
    }
    Scene::new()
}

#[track_caller]
fn honest(told: &Told) {
    assert_eq!(told.one(), "ran 7 compiled 1 found 0", "{told:#?}");
}

#[test]
fn files_planted_while_the_folder_was_open_do_not_run_once_it_is_mended() {
    let Some(scene) = with_strangers() else {
        return;
    };
    for folders_too in [false, true] {
        let cache = scene.tampered(&format!("cache-{folders_too}"), "7");
        estrange(&cache, false);
        if folders_too {
            // The folder inside was made by the stranger as well.
            estrange(&kernels(&cache), true);
        }
        all(&cache)
            .iter()
            .filter(|p| p.is_dir())
            .for_each(|p| allow(p, 0o777));
        let told = scene.run(&cache, "7", &[]);
        honest(&told);
        assert!(told.errors.contains("may be written by others"), "{told:?}");
        all(&cache)
            .iter()
            .filter(|p| p.is_dir())
            .for_each(|p| allow(p, 0o700));
        let told = scene.run(&cache, "7", &[]);
        honest(&told);
        assert!(told.errors.contains("belongs to another user"), "{told:?}");
        let found = scene.run(&cache, "7", &[]);
        let expected = if folders_too {
            "compiled 1 found 0"
        } else {
            "compiled 0 found 1"
        };
        assert_eq!(found.one(), format!("ran 7 {expected}"), "{found:?}");
    }
}

#[test]
fn nothing_runs_below_a_folder_that_others_may_write() {
    let Some(scene) = Scene::new() else { return };
    let shared = scene.path("shared");
    std::fs::create_dir(&shared).expect("made");
    allow(&shared, 0o755);
    scene.tampered("shared/cache", "7");
    let cache = shared.join("cache");
    for mode in [0o777, 0o775, 0o757] {
        allow(&shared, mode);
        let told = scene.run(&cache, "7", &[]);
        honest(&told);
        assert!(told.errors.contains("may be written by others"), "{told:?}");
    }
    // Entries of a sticky folder cannot be replaced, so one's own is one's own.
    allow(&shared, 0o1777);
    let told = scene.run(&cache, "7", &[]);
    assert!(told.one().contains("found 1"), "{told:?}");
    if is_root() {
        lchown(&shared, Some(STRANGER), None).expect("given away");
        for mode in [0o755, 0o1777] {
            allow(&shared, mode);
            let told = scene.run(&cache, "7", &[]);
            honest(&told);
            assert!(told.errors.contains("another user"), "{told:?}");
        }
    }
}

#[test]
fn a_link_turned_elsewhere_after_the_check_leads_nowhere_else() {
    let Some(scene) = Scene::new() else { return };
    let shared = scene.path("tmp");
    std::fs::create_dir(&shared).expect("made");
    allow(&shared, 0o1777);
    let (evil, good) = (scene.tampered("evil", "7"), scene.path("good"));
    let link = shared.join("cache");
    std::fs::create_dir(&good).expect("made");
    symlink(&good, &link).expect("linked");
    let go = scene.path("go");
    let mut command = scene.child(&link, "8;7");
    command.env("SCENE_GO", &go);
    let running = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("runs");
    while artifacts(&good).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::remove_file(&link).expect("removed");
    symlink(&evil, &link).expect("turned");
    std::fs::write(&go, "").expect("written");
    let told = Told::of(&running.wait_with_output().expect("ends"));
    assert_eq!(
        told.parts,
        ["ran 8 compiled 1 found 0", "ran 7 compiled 2 found 0"],
        "{told:?}"
    );
    // What was compiled afterwards lies where the link led when it was checked.
    let told = scene.run(&good, "7,8", &[]);
    assert_eq!(told.one(), "ran 7 8 compiled 0 found 2", "{told:?}");
}

#[test]
fn a_stranger_s_link_is_not_followed() {
    let Some(scene) = with_strangers() else {
        return;
    };
    let shared = scene.path("tmp");
    std::fs::create_dir(&shared).expect("made");
    allow(&shared, 0o1777);
    let (evil, link) = (scene.tampered("evil", "7"), shared.join("cache"));
    symlink(&evil, &link).expect("linked");
    let found = scene.run(&link, "7", &[]);
    assert!(found.one().contains("found 1"), "{found:?}");
    lchown(&link, Some(STRANGER), Some(STRANGER)).expect("given away");
    let told = scene.run(&link, "7", &[]);
    honest(&told);
    assert!(told.errors.contains("link of another user"), "{told:?}");
}

#[test]
fn files_that_others_may_write_do_not_run() {
    let Some(scene) = Scene::new() else { return };
    for mode in [0o666, 0o620, 0o602] {
        let cache = scene.tampered(&format!("cache-{mode:o}"), "7");
        artifacts(&cache).iter().for_each(|path| allow(path, mode));
        let told = scene.run(&cache, "7", &[]);
        honest(&told);
        assert!(told.errors.contains("may be written by others"), "{told:?}");
        assert_eq!(
            scene.run(&cache, "7", &[]).one(),
            "ran 7 compiled 0 found 1"
        );
    }
}

#[test]
fn an_artifact_under_another_kernel_s_name_does_not_run() {
    let Some(scene) = Scene::new() else { return };
    let cache = scene.path("cache");
    let name_of = |n: &str| {
        let before = artifacts(&cache);
        assert!(scene.run(&cache, n, &[]).success);
        let mut now = artifacts(&cache);
        now.retain(|path| !before.contains(path));
        now.pop().expect("a new one")
    };
    let (seven, eight) = (name_of("7"), name_of("8"));
    std::fs::rename(eight, &seven).expect("moved");
    honest(&scene.run(&cache, "7", &[]));
}

#[test]
fn what_is_no_file_is_not_opened() {
    let Some(scene) = Scene::new() else { return };
    let put = |kind: &[&str], path: &Path| {
        let (program, arguments) = kind.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments.iter().map(|a| match *a {
            "PATH" => path.as_os_str(),
            other => OsStr::new(other),
        }));
        command.status().is_ok_and(|status| status.success())
    };
    let kinds: [&[&str]; 4] = [
        &["mkfifo", "-m", "600", "PATH"],
        &["mknod", "-m", "600", "PATH", "c", "1", "5"],
        &["mkdir", "-m", "700", "PATH"],
        &["ln", "-s", "/dev/zero", "PATH"],
    ];
    for kind in kinds {
        let cache = scene.path("cache");
        assert!(scene.run(&cache, "7", &[]).success);
        let path = artifacts(&cache).pop().expect("an artifact");
        std::fs::remove_file(&path).expect("removed");
        if !put(kind, &path) {
            skip(&format!("{kind:?} is not allowed here"));
            continue;
        }
        let told = scene.run(&cache, "7", &[]);
        honest(&told);
        assert!(told.errors.contains("is no file"), "{kind:?}: {told:?}");
        std::fs::remove_dir_all(&cache).expect("removed");
    }
}

#[test]
fn a_stranger_s_record_of_the_compiler_is_not_believed() {
    let Some(scene) = with_strangers() else {
        return;
    };
    let cache = scene.path("cache");
    assert!(scene.run(&cache, "7", &[]).success);
    assert_eq!(scene.lines("asked"), 1);
    assert!(scene.run(&cache, "8", &[]).success);
    assert_eq!(scene.lines("asked"), 1, "the record serves");
    let records = all(&cache).into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("probe-")
    });
    records.for_each(|path| lchown(path, Some(STRANGER), None).expect("given away"));
    let told = scene.run(&cache, "9", &[]);
    assert_eq!(told.one(), "ran 9 compiled 1 found 0");
    assert_eq!(scene.lines("asked"), 2, "asked again: {told:?}");
}

/// The path of the source that a child could not compile.
#[track_caller]
fn kept_source(told: &Told) -> String {
    let text = told.one().strip_prefix("failed [");
    let path = text.and_then(|text| text.split_once(']'));
    path.unwrap_or_else(|| panic!("{told:?}")).0.to_owned()
}

#[test]
fn failed_sources_go_to_a_private_folder_of_no_predictable_name() {
    let Some(scene) = Scene::new() else { return };
    let shared = scene.path("tmp");
    std::fs::create_dir(&shared).expect("made");
    allow(&shared, 0o1777);
    // A cache folder that cannot be used.
    let cache = scene.path("open");
    std::fs::create_dir(&cache).expect("made");
    allow(&cache, 0o777);
    let run = || scene.run(&cache, "broken", &[("TMPDIR", shared.as_os_str())]);
    let first = kept_source(&run());
    let folder = Path::new(&first).parent().expect("a folder");
    assert_eq!(folder.parent(), Some(&*shared));
    let metadata = std::fs::metadata(folder).expect("there");
    assert_eq!(metadata.mode() & 0o777, 0o700);
    let text = std::fs::read_to_string(&first).expect("kept");
    assert!(text.contains("missing_type"), "{text}");
    // Links under every name that was used so far lead to a file of the victim.
    let victim = scene.path("victim");
    std::fs::write(&victim, "precious").expect("written");
    for suffix in ["c", "log"] {
        let name = Path::new(&first).with_extension(suffix);
        symlink(&victim, shared.join(name.file_name().expect("a name"))).expect("linked");
    }
    let second = kept_source(&run());
    assert_ne!(Path::new(&second).parent(), Some(folder));
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
    // In a folder that is used, a link of that name is replaced, not followed.
    let cache = scene.path("cache");
    let kept = kept_source(&scene.run(&cache, "broken", &[]));
    assert!(
        kept.starts_with(cache.join("failed").to_str().expect("text")),
        "{kept}"
    );
    std::fs::remove_file(&kept).expect("removed");
    symlink(&victim, &kept).expect("linked");
    assert_eq!(kept_source(&scene.run(&cache, "broken", &[])), kept);
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
    assert!(std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("missing_type")));
}

#[test]
fn a_temporary_folder_that_others_may_rearrange_is_left_alone() {
    let Some(scene) = Scene::new() else { return };
    let open = scene.path("tmp");
    std::fs::create_dir(&open).expect("made");
    allow(&open, 0o777);
    let before = std::fs::metadata(&open).expect("there").mtime_nsec();
    let told = scene.run(&scene.path("cache"), "7", &[("TMPDIR", open.as_os_str())]);
    honest(&told);
    assert!(told.errors.contains("may be written by others"), "{told:?}");
    let after = std::fs::metadata(&open).expect("there").mtime_nsec();
    assert_eq!(before, after, "something was made there");
}

#[test]
fn without_a_cache_nothing_is_written() {
    let Some(scene) = Scene::new() else { return };
    let (cache, temporary) = (scene.path("cache"), scene.path("tmp"));
    std::fs::create_dir(&temporary).expect("made");
    for word in ["0", "off", "no", "false"] {
        let settings = [
            ("FERROTRACE_CACHE", OsStr::new(word)),
            ("TMPDIR", temporary.as_os_str()),
        ];
        honest(&scene.run(&cache, "7", &settings));
        let told = scene.run(&cache, "broken", &settings);
        assert!(told.one().starts_with("failed []"), "{told:?}");
        assert!(told.one().contains("missing_type"), "{told:?}");
        assert!(!cache.exists());
        assert_eq!(all(&temporary), [&*temporary]);
    }
}

#[test]
fn another_s_cache_that_nobody_else_may_write_is_read() {
    let Some(scene) = with_strangers() else {
        return;
    };
    // As an image of a container ships it: made by root, readable by all.
    let cache = scene.path("cache");
    assert!(scene.run(&cache, "7,8", &[]).success);
    for path in all(&cache).iter().filter(|path| !path.is_symlink()) {
        allow(path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    let before = all(&cache);
    let stranger = |kernels: &str| {
        let mut command = scene.child(&cache, kernels);
        as_stranger(&mut command);
        match command.output() {
            Ok(output) => Told::of(&output),
            Err(e) => panic!("this program must be readable by all: {e}"),
        }
    };
    if !stranger("7").success {
        skip("another user cannot run this program");
        return;
    }
    assert_eq!(stranger("7,8").one(), "ran 7 8 compiled 0 found 2");
    let told = stranger("9");
    assert_eq!(told.one(), "ran 9 compiled 1 found 0");
    assert!(told.errors.contains("could not be kept"), "{told:?}");
    std::fs::remove_dir_all(scene.path("my tools")).expect("removed");
    let told = stranger("8");
    assert_eq!(told.one(), "ran 8 compiled 0 found 1");
    assert_eq!(told.errors, "", "what is there serves in silence");
    assert!(stranger("9").one().starts_with("no compiler"));
    assert_eq!(all(&cache), before, "nothing was written");
}
