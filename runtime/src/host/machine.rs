//! What the system says about the machine.

use once_cell::sync::Lazy;
use std::fs;

static MEMORY: Lazy<usize> = Lazy::new(|| {
    // SAFETY: sysconf reads a system constant and has no preconditions.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let physical = match (usize::try_from(pages), usize::try_from(page)) {
        (Ok(pages), Ok(page)) if pages > 0 => pages.saturating_mul(page),
        _ => 4 << 30,
    };
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limit = limits
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    limit.fold(physical, usize::min)
});

/// Bytes of memory this process may use: the machine's, or the control group's limit if that is less.
pub fn memory_bytes() -> usize {
    *MEMORY
}

/// Bytes of memory that the system could give this process now: what the machine has available, or what the control group's
/// limit leaves beside what the group has, if that is less; 0 where the system does not say.
pub fn available_bytes() -> usize {
    let number =
        |path: &str| -> Option<usize> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    let left = groups.iter().filter_map(|(limit, used)| {
        let (limit, used) = (number(limit)?, number(used)?);
        Some(limit.saturating_sub(used))
    });
    left.fold(available_of(&info).unwrap_or(0), usize::min)
}

/// What `/proc/meminfo` says is available.
fn available_of(info: &str) -> Option<usize> {
    let line = info
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1 << 10)
}

static CACHES: Lazy<[usize; 4]> = Lazy::new(|| {
    // Sizes of Zen 3 and Skylake client processors, for systems that do not tell theirs.
    let mut sizes = [0, 32 << 10, 512 << 10, 8 << 20];
    for index in 0..8 {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
            fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
        };
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size"))
        else {
            continue;
        };
        let (digits, unit) = size.split_at(size.trim_end_matches(['K', 'M', 'G']).len());
        let unit = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => 1,
        };
        if let (Ok(level @ 1..=3), Ok(n)) = (level.parse::<usize>(), digits.parse::<usize>())
            && kind != "Instruction"
        {
            sizes[level] = n.saturating_mul(unit);
        }
    }
    sizes
});

/// Bytes of the data or unified cache of `level` (1, 2 or 3) that one core sees; 0 for another level.
pub fn cache_bytes(level: usize) -> usize {
    CACHES.get(level).copied().unwrap_or(0)
}

/// Bytes of the largest cache.
pub fn last_cache_bytes() -> usize {
    CACHES.iter().copied().max().unwrap_or(0)
}

/// Whether so many bytes, a mebibyte at least, are more than the largest cache holds. Asks the system nothing for fewer:
/// its first answer takes as long as a small program.
pub fn exceeds_caches(bytes: usize) -> bool {
    bytes > 1 << 20 && bytes > last_cache_bytes()
}

/// The processor's name, or the architecture's where the system does not say.
pub fn model_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Makes this thread, and the threads and processes it starts from now on, give way to others: for work that nobody
/// waits for.
pub fn lower_priority() {
    // SAFETY: setpriority has no preconditions; a process may always lower its own priority. On Linux it speaks of the
    // calling thread.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plausible() {
        assert!(memory_bytes() >= 64 << 20);
        assert!(available_bytes() <= memory_bytes());
        let info = "MemTotal:       24000000 kB\nMemAvailable:    1000 kB\n";
        assert_eq!(available_of(info), Some(1_024_000));
        assert_eq!(available_of("MemTotal: 3 kB\nMemAvailable: ?"), None);
        assert!(cache_bytes(1) >= 8 << 10 && last_cache_bytes() >= cache_bytes(1));
        assert_eq!(cache_bytes(9), 0);
        assert!(!exceeds_caches(1 << 20) && exceeds_caches(usize::MAX));
        assert!(!exceeds_caches(last_cache_bytes()));
        assert!(!model_name().is_empty());
    }
}
