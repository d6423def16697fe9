//! Compilers that hang, lie and leave things behind, and systems that refuse: each is told as what it is.

mod scene;

use scene::*;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

#[test]
fn child() {
    scene::child();
}

/// Ends what a compiler of the scene left, and tells whether it still ran.
fn end(scene: &Scene, name: &str) -> bool {
    let pid = std::fs::read_to_string(scene.path(name)).expect("a number");
    let stat = format!("/proc/{}/stat", pid.trim());
    let runs = std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "));
    let _ = Command::new("kill").args(["-9", pid.trim()]).status();
    runs
}

#[test]
fn a_library_cut_short_is_an_error_and_no_signal() {
    let Some(scene) = Scene::new() else { return };
    for cut in ["0", "1", "10", "50", "90", "99"] {
        let cache = scene.path(format!("cache-{cut}"));
        let told = scene.run(&cache, "7", &[("CUT", cut.as_ref())]);
        assert!(told.one().contains("could not load"), "{cut}: {told:?}");
        assert!(artifacts(&cache).is_empty());
        assert_eq!(
            scene.run(&cache, "7", &[]).one(),
            "ran 7 compiled 1 found 0"
        );
    }
}

#[test]
fn a_compiler_that_hangs_is_ended_with_what_it_started() {
    let Some(scene) = Scene::new() else { return };
    let settings = [
        ("HANG", OsStr::new("1")),
        ("FERROTRACE_COMPILE_TIMEOUT", OsStr::new("0.5")),
    ];
    let told = scene.run(&scene.path("cache"), "7,8,9,10,11", &settings);
    assert!(
        told.one().contains("FERROTRACE_COMPILE_TIMEOUT"),
        "{told:?}"
    );
    // Two files side by side, and no kernel by itself afterwards.
    assert!(scene.lines("runs") <= 4, "{}", scene.lines("runs"));
    assert!(!end(&scene, "hung"), "its child lives on");
}

#[test]
fn a_compiler_that_does_not_say_what_it_is_is_none() {
    let Some(scene) = Scene::new() else { return };
    let settings = [
        ("MUTE", OsStr::new("1")),
        ("FERROTRACE_COMPILE_TIMEOUT", OsStr::new("0.5")),
    ];
    let told = scene.run(&scene.path("cache"), "7", &settings);
    assert!(told.one().starts_with("no compiler"), "{told:?}");
    assert!(told.one().contains("did not end in time"), "{told:?}");
    assert!(!end(&scene, "mute"), "it lives on");
}

#[test]
fn what_a_compiler_leaves_running_is_not_waited_for() {
    let Some(scene) = Scene::new() else { return };
    let told = scene.run(&scene.path("cache"), "7", &[("LEAVE", "1".as_ref())]);
    assert_eq!(told.one(), "ran 7 compiled 1 found 0");
    assert!(end(&scene, "left"), "it was no business of ours");
}

#[test]
fn a_parent_that_ignores_its_children_s_ends_is_told_so() {
    let Some(scene) = Scene::new() else { return };
    let mut command = Command::new("env");
    scene.prepare(&mut command, &scene.path("cache"), "7");
    command
        .arg("--ignore-signal=CHLD")
        .arg(std::env::current_exe().expect("this program"))
        .args(ARGUMENTS);
    let told = Told::of(&command.output().expect("runs"));
    assert!(told.one().contains("SIGCHLD"), "{told:?}");
    assert!(told.one().contains("os error 10"), "{told:?}");
}

#[test]
fn a_system_without_room_for_a_process_is_told_so() {
    let Some(scene) = Scene::new() else { return };
    if !is_root() {
        skip("only root can play a user of one process");
        return;
    }
    let private = scene.path("private");
    std::fs::create_dir(&private).expect("made");
    estrange(&private, true);
    let mut command = Command::new("bash");
    scene.prepare(&mut command, &private, "8");
    command
        .args(["-c", "ulimit -u 1; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(ARGUMENTS)
        .env("FERROTRACE_THREADS", "1");
    as_stranger(&mut command);
    let told = Told::of(&command.output().expect("runs"));
    if !told.success {
        skip("another user cannot run this program");
        return;
    }
    assert!(told.one().contains("os error 11"), "{told:?}");
}

#[test]
fn a_full_disk_costs_the_cache_alone() {
    let Some(scene) = Scene::new() else { return };
    let disk = scene.path("disk");
    std::fs::create_dir(&disk).expect("made");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8k,mode=755", "tmpfs"])
        .arg(&disk)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        skip("nothing can be mounted here");
        return;
    }
    let told = scene.run(&disk.join("cache"), "7", &[]);
    let temporary = scene.run(&scene.path("cache"), "7", &[("TMPDIR", disk.as_os_str())]);
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(told.one(), "ran 7 compiled 1 found 0");
    assert!(told.errors.contains("os error 28"), "{told:?}");
    assert!(!temporary.one().contains("ran"), "{temporary:?}");
}

#[test]
fn processes_that_race_compile_each_kernel_once() {
    let Some(scene) = Scene::new() else { return };
    let (cache, wanted) = (scene.path("cache"), "1,2,3,4,5,6");
    let start = || {
        let mut command = scene.child(&cache, wanted);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().expect("runs")
    };
    let running: Vec<_> = (0..10).map(|_| start()).collect();
    let told = running
        .into_iter()
        .map(|child| Told::of(&child.wait_with_output().expect("ends")));
    let mut compiled = 0;
    for told in told {
        let numbers: Vec<&str> = told.one().split(' ').collect();
        assert_eq!(
            numbers[..7],
            ["ran", "1", "2", "3", "4", "5", "6"],
            "{told:?}"
        );
        compiled += numbers[8].parse::<u32>().expect("a number");
    }
    assert_eq!(compiled, 6);
}

#[test]
fn who_waits_for_another_s_kernel_in_vain_compiles_it() {
    let Some(scene) = Scene::new() else { return };
    let cache = scene.path("cache");
    let hanging = scene
        .child(&cache, "7")
        .env("HANG", "1")
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut hanging = hanging.expect("runs");
    while !scene.path("hung").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The longest wait is that of a compiler.
    let settings = [("FERROTRACE_COMPILE_TIMEOUT", OsStr::new("1"))];
    let told = scene.run(&cache, "7", &settings);
    assert_eq!(told.one(), "ran 7 compiled 1 found 0", "{told:?}");
    hanging.kill().expect("ended");
    hanging.wait().expect("gone");
    end(&scene, "hung");
}

#[test]
fn folders_of_any_bytes_hold_kernels() {
    use std::os::unix::ffi::OsStrExt;
    let Some(scene) = Scene::new() else { return };
    let cache = scene.path(OsStr::from_bytes(b"caf\xe9 \xff"));
    assert_eq!(
        scene.run(&cache, "7", &[]).one(),
        "ran 7 compiled 1 found 0"
    );
    assert_eq!(
        scene.run(&cache, "7", &[]).one(),
        "ran 7 compiled 0 found 1"
    );
    assert!(Path::new(&cache).is_dir());
}

#[test]
fn what_is_not_understood_is_told_once() {
    let Some(scene) = Scene::new() else { return };
    let settings = [
        ("FERROTRACE_MODE", OsStr::new("egar")),
        ("FERROTRACE_THREADS", OsStr::new("abc")),
        ("FERROTRACE_STRICT", OsStr::new("maybe")),
    ];
    let told = scene.run(&scene.path("cache"), "7,8", &settings);
    assert_eq!(told.one(), "ran 7 8 compiled 2 found 0");
    for (name, value) in settings {
        let told = told.errors.matches(name).count();
        assert_eq!(told, 1, "{name}={value:?}");
    }
}
