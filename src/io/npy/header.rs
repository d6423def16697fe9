//! The header of an array in NumPy's format: a literal of a Python dictionary
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use crate::DType;
use std::io::Read;

/// What every array begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Most bytes of a header: 64 sizes take less than a hundredth of it, names of a structured dtype's fields are refused
/// anyway.
const LONGEST: usize = 1 << 20;

/// The order of the bytes of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// What a header says of the elements that follow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Of a part where numbers are complex.
    pub dtype: DType,
    /// Whether each element is a real and an imaginary part.
    pub is_complex: bool,
    pub order: Order,
    /// Whether the first index varies fastest.
    pub is_fortran: bool,
    pub dims: Vec<usize>,
}

/// Reads a header, or says what is wrong with it.
pub(super) fn read(stream: &mut (impl Read + ?Sized)) -> Result<Header, String> {
    let mut start = [0; 8];
    stream
        .read_exact(&mut start)
        .map_err(|_| "is too short for an array of NumPy's")?;
    if &start[..6] != MAGIC {
        return Err("is no array of NumPy's: it begins otherwise".to_owned());
    }
    let mut fixed = |n: usize| {
        let mut bytes = [0; 4];
        let read = stream.read_exact(&mut bytes[..n]);
        read.map(|()| u32::from_le_bytes(bytes) as usize)
            .map_err(|_| "ends within its header".to_owned())
    };
    let len = match start[6] {
        1 => fixed(2)?,
        2 | 3 => fixed(4)?,
        other => {
            return Err(format!(
                "is of version {other} of NumPy's format, not 1 to 3"
            ));
        }
    };
    if len > LONGEST {
        return Err(format!("has a header of {len} bytes"));
    }
    let mut text = vec![0; len];
    stream
        .read_exact(&mut text)
        .map_err(|_| "ends within its header")?;
    let text = match start[6] {
        3 => String::from_utf8(text).map_err(|_| "has a header that is not UTF-8")?,
        _ => text.into_iter().map(char::from).collect(),
    };
    Literal(text.as_str()).header()
}

/// The text of a header: as short as it may be, padded so that the elements begin at a multiple of 64.
pub(super) fn write(dtype: DType, dims: &[usize]) -> Vec<u8> {
    let sizes: Vec<String> = dims.iter().map(usize::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let shape = format!("({}{comma})", sizes.join(", "));
    let descr = descr(dtype);
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // 64 sizes of 20 digits fit the two bytes of the first version's length.
    let filled = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64);
    let len = filled - MAGIC.len() - 4;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((len as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.resize(filled - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// How NumPy names a dtype. It has no bfloat16; the package `ml_dtypes`, which adds it, writes two bytes of no meaning.
fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

/// The dtype of a name, whether it is that of a complex number's parts, and the byte order.
fn dtype_of(descr: &str) -> Result<(DType, bool, Order), String> {
    let (order, rest) = match descr.as_bytes().first() {
        Some(b'<' | b'|' | b'=') => (Order::Little, &descr[1..]),
        Some(b'>') => (Order::Big, &descr[1..]),
        _ => (Order::Little, descr),
    };
    let dtype = match rest {
        "b1" | "?" => DType::Bool,
        "u1" => DType::U8,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "V2" | "bfloat16" => DType::BF16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::F32,
        "c16" => DType::F64,
        _ => return Err(untaken(descr, rest)),
    };
    Ok((dtype, rest.starts_with('c'), order))
}

fn untaken(descr: &str, rest: &str) -> String {
    let is = match (rest.chars().next(), rest.get(1..)) {
        (Some('u'), Some("2")) => "unsigned 16-bit integers",
        (Some('u'), Some("4")) => "unsigned 32-bit integers",
        (Some('u'), Some("8")) => "unsigned 64-bit integers",
        (Some('u' | 'i'), _) => "integers of another width",
        (Some('f'), _) => "floats wider than 64 bits",
        (Some('c'), _) => "complex numbers wider than 128 bits",
        (Some('O'), _) => "Python objects, which only a Python program can read",
        (Some('S' | 'a' | 'U'), _) => "strings",
        (Some('M' | 'm'), _) => "dates or durations",
        (Some('V'), _) => "bytes of no meaning",
        _ => "unknown",
    };
    let named: String = descr.chars().take(32).collect();
    format!("holds {is} (dtype {named:?}), which no tensor has")
}

/// What is left of a Python literal.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut element, mut is_fortran, mut dims) = (None, None, None);
        self.expect('{')?;
        while !self.eat('}') {
            let key = self.string()?;
            self.expect(':')?;
            let twice = match key {
                "descr" => element.replace(self.descr()?).is_some(),
                "fortran_order" => is_fortran.replace(self.boolean()?).is_some(),
                "shape" => dims.replace(self.sizes()?).is_some(),
                _ => return Err("has a header with another key".to_owned()),
            };
            if twice {
                return Err(format!("has a header that says {key} twice"));
            }
            if !self.eat(',') {
                self.expect('}')?;
                break;
            }
        }
        self.0 = self.0.trim_start();
        let absent = "has a header without dtype, order or shape";
        match (element, is_fortran, dims) {
            (Some((dtype, is_complex, order)), Some(is_fortran), Some(dims))
                if self.0.is_empty() =>
            {
                Ok(Header {
                    dtype,
                    is_complex,
                    order,
                    is_fortran,
                    dims,
                })
            }
            _ => Err(absent.to_owned()),
        }
    }

    fn eat(&mut self, c: char) -> bool {
        self.0 = self.0.trim_start();
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        match self.eat(c) {
            true => Ok(()),
            false => Err(format!("has a header in which {c:?} is expected")),
        }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let quote = if self.eat('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect(quote)?;
        }
        let (inside, rest) = self
            .0
            .split_once(quote)
            .ok_or("has a header in which a string does not end")?;
        self.0 = rest;
        Ok(inside)
    }

    fn descr(&mut self) -> Result<(DType, bool, Order), String> {
        self.0 = self.0.trim_start();
        if self.0.starts_with(['[', '(']) {
            return Err("holds records of several fields, which no tensor has".to_owned());
        }
        dtype_of(self.string()?)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.0 = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err("has a header in which True or False is expected".to_owned())
    }

    /// A tuple of sizes. Python 2 wrote an `L` after large ones.
    fn sizes(&mut self) -> Result<Vec<usize>, String> {
        let mut sizes = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            self.0 = self.0.trim_start();
            let end = self.0.find(|c: char| !c.is_ascii_digit());
            let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
            let size = digits.parse();
            sizes.push(size.map_err(|_| "has a header with a size that is none")?);
            self.0 = rest.strip_prefix('L').unwrap_or(rest);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Header, String> {
        Literal(text).header()
    }

    #[test]
    fn what_is_written_is_read() {
        for dtype in DType::ALL {
            for dims in [&[][..], &[3], &[0, 2], &[usize::MAX; 64]] {
                let bytes = write(dtype, dims);
                assert_eq!((bytes.len() % 64, bytes.last()), (0, Some(&b'\n')));
                let header = read(&mut &bytes[..]).expect("a header");
                let want = Header {
                    dtype,
                    is_complex: false,
                    order: Order::Little,
                    is_fortran: false,
                    dims: dims.to_vec(),
                };
                assert_eq!(header, want);
            }
        }
    }

    #[test]
    fn other_spellings() {
        let header = parsed("{\"shape\":(3L , 4L),'fortran_order' :True,'descr':\">f8\"}\n");
        let header = header.expect("a header");
        assert_eq!((header.dtype, header.order), (DType::F64, Order::Big));
        assert_eq!((header.is_fortran, header.dims), (true, vec![3, 4]));
    }

    #[test]
    fn what_is_refused_is_named() {
        let of = |descr: &str| {
            let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ()}}");
            parsed(&text).expect_err("refused")
        };
        for (descr, part) in [
            ("'<u2'", "unsigned 16-bit"),
            ("'<u8'", "unsigned 64-bit"),
            ("'<c32'", "complex"),
            ("'<f16'", "wider than 64"),
            ("'|O'", "Python objects"),
            ("'<U5'", "strings"),
            ("'|S5'", "strings"),
            ("'<M8[ns]'", "dates"),
            ("'|V4'", "no meaning"),
            ("[('a', '<f4')]", "several fields"),
            ("'\u{e9}'", "unknown"),
            ("''", "unknown"),
        ] {
            let error = of(descr);
            assert!(error.contains(part), "{descr}: {error}");
        }
    }

    #[test]
    fn texts_that_are_no_header() {
        for text in [
            "",
            "{",
            "{'descr",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (1 2)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (), 'more': 1}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': True, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': ()} + 1",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(read(&mut &b"\x93NUMPY\x02\x00\xff\xff\xff\xff"[..]).is_err());
        assert!(read(&mut &b"\x93NUMPY\x04\x00\x00\x00"[..]).is_err());
        assert!(read(&mut &b"\x93NUMPX\x01\x00\x00\x00"[..]).is_err());
    }
}
