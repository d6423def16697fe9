//! Variables of the environment as settings, and what is to be said of those that were not understood.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

const OFF: [&str; 4] = ["0", "false", "off", "no"];
const ON: [&str; 4] = ["1", "true", "on", "yes"];

fn is_among(words: &[&str], value: &str) -> bool {
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a value says that something is not wanted: `0`, `false`, `off` or `no`.
pub(crate) fn is_off(value: &str) -> bool {
    is_among(&OFF, value)
}

/// Whether a value switches something on or off (a word or a number), rather than being a path.
pub(crate) fn is_switch(value: &OsStr) -> bool {
    let text = value.to_str().map(str::trim);
    text.is_some_and(|text| is_off(text) || is_among(&ON, text) || text.parse::<i64>().is_ok())
}

/// Variables looked up through a function. An empty one counts as unset. One that is not understood counts as unset
/// too, and leaves a complaint.
pub(crate) struct Variables<F> {
    lookup: F,
    complaints: RefCell<Vec<String>>,
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    pub(crate) fn new(lookup: F) -> Self {
        let complaints = RefCell::default();
        Variables { lookup, complaints }
    }

    /// What was not understood, a sentence each.
    pub(crate) fn complaints(self) -> Vec<String> {
        self.complaints.into_inner()
    }

    pub(crate) fn complain(&self, name: &str, what: String) {
        let sentence = format!("{name}: {what}");
        self.complaints.borrow_mut().push(sentence);
    }

    /// The value as it stands, of any bytes.
    pub(crate) fn raw(&self, name: &str) -> Option<OsString> {
        let value = (self.lookup)(name)?;
        let blank = value.to_str().is_some_and(|text| text.trim().is_empty());
        (!blank).then_some(value)
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.raw(name).map(PathBuf::from)
    }

    /// The value as text without blanks around it.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        let value = self.raw(name)?;
        let Some(text) = value.to_str() else {
            self.complain(name, format!("{value:?} is no text"));
            return None;
        };
        Some(text.trim().to_owned())
    }

    /// Whether something is switched on: `0`, `false`, `off` and `no` are off, `1`, `true`, `on`, `yes` and other
    /// numbers are on, in any case of letters.
    pub(crate) fn switch(&self, name: &str, default: bool) -> bool {
        let Some(word) = self.word(name) else {
            return default;
        };
        if let Ok(number) = word.parse::<i64>() {
            return number != 0;
        }
        if is_among(&ON, &word) || is_off(&word) {
            return !is_off(&word);
        }
        let kept = if default { "on" } else { "off" };
        self.complain(
            name,
            format!("{word:?} is neither on (1) nor off (0); it stays {kept}"),
        );
        default
    }

    /// A number that `fits`; `wanted` says which do. The words for off leave it unset; `0` is the number 0.
    pub(crate) fn number<T: FromStr>(
        &self,
        name: &str,
        wanted: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let word = self.word(name)?;
        let number = word.parse().ok().filter(fits);
        if number.is_none() && (word == "0" || !is_off(&word)) {
            self.complain(name, format!("{word:?} is not {wanted}"));
        }
        number
    }

    /// One of these words, in any case of letters.
    pub(crate) fn one_of(&self, name: &str, words: &[&'static str]) -> Option<&'static str> {
        let word = self.word(name)?;
        let known = words.iter().find(|known| word.eq_ignore_ascii_case(known));
        if known.is_none() {
            self.complain(name, format!("{word:?} is none of {}", words.join(", ")));
        }
        known.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Variables<impl Fn(&str) -> Option<OsString>> {
        let value = OsString::from(value);
        Variables::new(move |_| Some(value.clone()))
    }

    #[test]
    fn switches_know_the_words_of_both_sides() {
        for (value, on) in [
            ("0", false),
            ("false", false),
            ("Off", false),
            ("NO", false),
            (" 00 ", false),
            ("1", true),
            ("true", true),
            ("ON", true),
            ("yes", true),
            ("2", true),
        ] {
            for default in [false, true] {
                let variables = of(value);
                assert_eq!(variables.switch("X", default), on, "{value}");
                assert!(variables.complaints().is_empty(), "{value}");
            }
        }
        for default in [false, true] {
            let blank = of("  ");
            assert_eq!(blank.switch("X", default), default);
            assert!(blank.complaints().is_empty());
            let unknown = of("perhaps");
            assert_eq!(unknown.switch("X", default), default);
            let complaints = unknown.complaints();
            assert!(
                complaints[0].starts_with("X: \"perhaps\""),
                "{complaints:?}"
            );
        }
    }

    #[test]
    fn numbers_and_words_are_checked() {
        let least_one = |value: &str| {
            let variables = of(value);
            let number = variables.number("X", "a number from 1 on", |&n: &usize| n >= 1);
            (number, variables.complaints().len())
        };
        assert_eq!(least_one("3"), (Some(3), 0));
        assert_eq!(least_one("off"), (None, 0));
        for wrong in ["abc", "0", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(least_one(wrong), (None, 1), "{wrong}");
        }
        let colour = |value: &str| {
            let variables = of(value);
            let word = variables.one_of("X", &["red", "green"]);
            (word, variables.complaints().len())
        };
        assert_eq!(colour("Green"), (Some("green"), 0));
        assert_eq!(colour("gren"), (None, 1));
    }

    #[cfg(unix)]
    #[test]
    fn paths_are_any_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = b"/tmp/\xff\xfe dir".to_vec();
        let value = OsString::from_vec(bytes.clone());
        let variables = Variables::new(|_| Some(value.clone()));
        let path = variables.path("X").expect("a path");
        assert_eq!(path.into_os_string().into_vec(), bytes);
        assert_eq!(variables.word("X"), None);
        assert_eq!(variables.complaints().len(), 1);
    }
}
