//! What was found out at some cost and is remembered: short texts by key, in memory and beside the compiled kernels on
//! disk (codegen B11.5: choices are remembered).

use super::{FORMAT, Store, digest};
use lru::LruCache;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// Texts kept in memory; the least recently used goes first.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

static NOTES: LazyLock<Mutex<LruCache<u128, String>>> =
    LazyLock::new(|| Mutex::new(LruCache::new(CAPACITY)));

fn digest_of(key: &[&str]) -> u128 {
    let mut fields = digest::Fields::default();
    fields.add(&FORMAT.to_le_bytes());
    key.iter().for_each(|field| fields.add(field.as_bytes()));
    fields.finish()
}

/// What is remembered under a key, a list of fields.
///
/// ```
/// use ferrotrace_runtime::notes::{recall, remember};
///
/// remember(&["a doctest", "colour"], "blue");
/// assert_eq!(recall(&["a doctest", "colour"]).as_deref(), Some("blue"));
/// assert_eq!(recall(&["a doctest", "size"]), None);
/// ```
pub fn recall(key: &[&str]) -> Option<String> {
    let key = digest_of(key);
    if let Some(text) = NOTES.lock().get(&key) {
        return Some(text.clone());
    }
    let text = Store::global()?.read_note(key)?;
    NOTES.lock().put(key, text.clone());
    Some(text)
}

/// Remembers a text under a key, in place of what was there.
pub fn remember(key: &[&str], text: &str) {
    let key = digest_of(key);
    NOTES.lock().put(key, text.to_owned());
    if let Some(store) = Store::global() {
        store.write_note(key, text);
    }
}

/// Forgets what is in memory, as a new process would have done.
pub(crate) fn forget() {
    NOTES.lock().clear();
}
