//! Expressions of symbolic sizes: sympy's (`Mul(Integer(2), Symbol('s77', positive=True))`) and Python's
//! (`L['x'].size()[0] % 2 == 0`), which share one syntax.

use crate::Scalar;

/// Expressions within each other that are followed.
const DEEPEST: usize = 200;

/// Names, numbers and signs of an expression that is read: a row of sums is as deep as it is long.
const LONGEST: usize = 4096;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Int(i64),
    Float(f64),
    Text(String),
    /// A symbol.
    Symbol(String),
    /// An input of the program, by what leads to it.
    Input(Vec<String>),
    /// A size of an input.
    SizeOf(Vec<String>, usize),
    Apply(String, Vec<Expr>),
}

/// Where symbols and inputs get their values.
pub(super) trait Known {
    /// The value of a symbol.
    fn symbol(&self, name: &str) -> Option<Scalar>;

    /// The value of an input that is a number.
    fn input(&self, path: &[String]) -> Option<Scalar>;

    /// A size of an input.
    fn size(&self, path: &[String], dim: usize) -> Option<usize>;
}

impl Expr {
    /// Reads an expression; `None` for what is none, or has what is not known here.
    pub fn parse(text: &str) -> Option<Expr> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
        };
        let expr = parser.binary(0)?;
        (parser.at == parser.tokens.len()).then_some(expr)
    }

    /// The value; `None` where something is not known, or has no value.
    pub fn value(&self, known: &dyn Known) -> Option<Scalar> {
        match self {
            Expr::Int(number) => Some(Scalar::Int(*number)),
            Expr::Float(number) => Some(Scalar::Float(*number)),
            Expr::Text(_) => None,
            Expr::Symbol(name) => known.symbol(name),
            Expr::Input(path) => known.input(path),
            Expr::SizeOf(path, dim) => {
                let size = known.size(path, *dim)?;
                i64::try_from(size).ok().map(Scalar::Int)
            }
            Expr::Apply(name, args) => {
                let args: Option<Vec<Scalar>> = args.iter().map(|arg| arg.value(known)).collect();
                apply(name, &args?)
            }
        }
    }
}

fn truth(value: bool) -> Option<Scalar> {
    Some(Scalar::Bool(value))
}

fn is_float(args: &[Scalar]) -> bool {
    args.iter().any(|arg| matches!(arg, Scalar::Float(_)))
}

/// The value of a function of numbers, by the names that sympy, PyTorch and Python's operators have for it.
pub(super) fn apply(name: &str, args: &[Scalar]) -> Option<Scalar> {
    let fold = |ints: fn(i64, i64) -> Option<i64>, floats: fn(f64, f64) -> f64| {
        let (first, rest) = args.split_first()?;
        let mut total = *first;
        for &arg in rest {
            total = match is_float(&[total, arg]) {
                true => Scalar::Float(floats(total.to_f64(), arg.to_f64())),
                false => Scalar::Int(ints(total.to_i64(), arg.to_i64())?),
            };
        }
        Some(total)
    };
    match (name, args) {
        ("+" | "Add" | "add", _) => fold(i64::checked_add, |a, b| a + b),
        ("*" | "Mul" | "mul", _) => fold(i64::checked_mul, |a, b| a * b),
        ("Max" | "max" | "sym_max", _) => fold(|a, b| Some(a.max(b)), f64::max),
        ("Min" | "min" | "sym_min", _) => fold(|a, b| Some(a.min(b)), f64::min),
        ("And" | "and" | "and_", _) => truth(args.iter().all(|arg| arg.to_bool())),
        ("Or" | "or" | "or_", _) => truth(args.iter().any(|arg| arg.to_bool())),
        (_, &[x]) => unary(name, x),
        (_, &[a, b]) => binary(name, a, b),
        ("ite" | "sym_ite" | "Piecewise", &[test, a, b]) => {
            Some(if test.to_bool() { a } else { b })
        }
        _ => None,
    }
}

fn unary(name: &str, x: Scalar) -> Option<Scalar> {
    let whole = |value: f64| {
        let fits = value.abs() < 9.2e18;
        fits.then_some(Scalar::Int(value as i64))
    };
    match (name, x) {
        ("neg", Scalar::Float(x)) => Some(Scalar::Float(-x)),
        ("neg", x) => x.to_i64().checked_neg().map(Scalar::Int),
        ("pos" | "Integer" | "Float" | "sym_int_identity", x) => Some(x),
        ("Abs" | "abs", Scalar::Float(x)) => Some(Scalar::Float(x.abs())),
        ("Abs" | "abs", x) => x.to_i64().checked_abs().map(Scalar::Int),
        ("Not" | "not" | "sym_not", x) => truth(!x.to_bool()),
        ("floor" | "FloorToInt", x) if is_float(&[x]) => whole(x.to_f64().floor()),
        ("ceiling" | "ceil" | "CeilToInt", x) if is_float(&[x]) => whole(x.to_f64().ceil()),
        ("trunc" | "TruncToInt" | "sym_int", x) if is_float(&[x]) => whole(x.to_f64().trunc()),
        ("RoundToInt" | "round", x) if is_float(&[x]) => whole(x.to_f64().round_ties_even()),
        (
            "floor" | "FloorToInt" | "ceiling" | "ceil" | "CeilToInt" | "trunc" | "TruncToInt"
            | "sym_int" | "RoundToInt" | "round",
            x,
        ) => Some(Scalar::Int(x.to_i64())),
        ("ToFloat" | "sym_float", x) => Some(Scalar::Float(x.to_f64())),
        ("OpaqueUnaryFn_sqrt" | "sqrt" | "_sym_sqrt" | "sym_sqrt", x) => {
            Some(Scalar::Float(x.to_f64().sqrt()))
        }
        ("log2" | "OpaqueUnaryFn_log2" | "_sym_log2", x) => Some(Scalar::Float(x.to_f64().log2())),
        _ => None,
    }
}

fn binary(name: &str, a: Scalar, b: Scalar) -> Option<Scalar> {
    let float = is_float(&[a, b]);
    let (x, y, i, j) = (a.to_f64(), b.to_f64(), a.to_i64(), b.to_i64());
    let equal = if float { x == y } else { i == j };
    let less = if float { x < y } else { i < j };
    match name {
        "-" | "sub" if float => Some(Scalar::Float(x - y)),
        "-" | "sub" => i.checked_sub(j).map(Scalar::Int),
        "/" | "truediv" | "IntTrueDiv" | "FloatTrueDiv" => {
            (y != 0.0).then_some(Scalar::Float(x / y))
        }
        "Rational" if j != 0 && i % j == 0 => Some(Scalar::Int(i / j)),
        "Rational" => (j != 0).then_some(Scalar::Float(x / y)),
        "//" | "FloorDiv" | "floordiv" | "CleanDiv" if float => {
            (y != 0.0).then_some(Scalar::Float((x / y).floor()))
        }
        "//" | "FloorDiv" | "floordiv" | "CleanDiv" => {
            let quotient = i.checked_div(j)?;
            let below = i % j != 0 && ((i < 0) != (j < 0));
            Some(Scalar::Int(quotient - i64::from(below)))
        }
        "CeilDiv" => {
            let quotient = i.checked_div(j)?;
            let above = i % j != 0 && ((i < 0) == (j < 0));
            Some(Scalar::Int(quotient + i64::from(above)))
        }
        "%" | "Mod" | "PythonMod" | "mod" if float => {
            (y != 0.0).then_some(Scalar::Float(x - y * (x / y).floor()))
        }
        "%" | "Mod" | "PythonMod" | "mod" => {
            let left = i.checked_rem(j)?;
            let other = left != 0 && ((left < 0) != (j < 0));
            Some(Scalar::Int(if other { left + j } else { left }))
        }
        "**" | "Pow" | "pow" | "PowByNatural" | "pow_by_natural" | "FloatPow" => {
            match (float, u32::try_from(j)) {
                (false, Ok(exponent)) => i.checked_pow(exponent).map(Scalar::Int),
                _ => Some(Scalar::Float(x.powf(y))),
            }
        }
        "==" | "Eq" | "Equality" | "eq" => truth(equal),
        "!=" | "Ne" | "Unequality" | "ne" => truth(!equal),
        "<" | "Lt" | "StrictLessThan" | "lt" => truth(less),
        "<=" | "Le" | "LessThan" | "le" => truth(less || equal),
        ">" | "Gt" | "StrictGreaterThan" | "gt" => truth(!less && !equal),
        ">=" | "Ge" | "GreaterThan" | "ge" => truth(!less),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Written),
    Name(String),
    Text(String),
    Sign(&'static str),
}

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
    Int(i64),
    Float(f64),
}

const SIGNS: [&str; 20] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "(", ")", "[", "]", ",",
    ".", "=",
];

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            let word = &rest[..end.unwrap_or(rest.len())];
            let number = match word.parse() {
                Ok(number) => Written::Int(number),
                Err(_) => Written::Float(word.parse().ok()?),
            };
            tokens.push(Token::Number(number));
            word.len()
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let word = &rest[..end.unwrap_or(rest.len())];
            tokens.push(Token::Name(word.to_owned()));
            word.len()
        } else if first == '\'' || first == '"' {
            let end = rest[1..].find(first)?;
            tokens.push(Token::Text(rest[1..1 + end].to_owned()));
            end + 2
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            tokens.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[len..].trim_start();
        if tokens.len() > LONGEST {
            return None;
        }
    }
    Some(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// How tightly an operator binds.
fn strength(token: &Token) -> Option<(u8, &str)> {
    Some(match token {
        Token::Name(name) if name == "or" => (1, "or"),
        Token::Name(name) if name == "and" => (2, "and"),
        Token::Sign(sign @ ("==" | "!=" | "<=" | ">=" | "<" | ">")) => (4, *sign),
        Token::Sign(sign @ ("+" | "-")) => (5, *sign),
        Token::Sign(sign @ ("*" | "/" | "//" | "%")) => (6, *sign),
        Token::Sign(sign @ "**") => (8, *sign),
        _ => return None,
    })
}

impl Parser {
    fn next(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let is = matches!(self.next(), Some(Token::Sign(next)) if *next == sign);
        self.at += usize::from(is);
        is
    }

    fn eats(&mut self, sign: &str) -> Option<()> {
        self.eat(sign).then_some(())
    }

    /// An expression of operators that bind at least so tightly.
    fn binary(&mut self, least: u8) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut left = self.prefixed()?;
        while let Some((how, name)) = self.next().and_then(strength)
            && how >= least
        {
            let name = name.to_owned();
            self.at += 1;
            let right = self.binary(how + 1)?;
            left = Expr::Apply(name, vec![left, right]);
        }
        self.depth -= 1;
        Some(left)
    }

    fn prefixed(&mut self) -> Option<Expr> {
        if self.eat("-") {
            return Some(Expr::Apply("neg".to_owned(), vec![self.binary(7)?]));
        }
        if self.next() == Some(&Token::Name("not".to_owned())) {
            self.at += 1;
            return Some(Expr::Apply("not".to_owned(), vec![self.binary(3)?]));
        }
        let mut expr = match self.next()?.clone() {
            Token::Number(Written::Int(number)) => self.taken(Expr::Int(number)),
            Token::Number(Written::Float(number)) => self.taken(Expr::Float(number)),
            Token::Text(text) => self.taken(Expr::Text(text)),
            Token::Name(name) => {
                self.at += 1;
                self.named(name)?
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.binary(0)?;
                self.eats(")")?;
                inner
            }
            Token::Sign(_) => return None,
        };
        loop {
            if self.eat("[") {
                let index = self.binary(0)?;
                self.eats("]")?;
                expr = indexed(expr, index)?;
            } else if self.eat(".") {
                let Token::Name(name) = self.next()?.clone() else {
                    return None;
                };
                self.at += 1;
                match (&*name, &expr) {
                    ("size", Expr::Input(_)) => {
                        self.eats("(")?;
                        self.eats(")")?;
                    }
                    ("shape", Expr::Input(_)) => {}
                    // `math.floor` and `torch.sym_max` are their last names.
                    (_, Expr::Symbol(module)) if module == "math" || module == "torch" => {
                        expr = self.named(name)?;
                        continue;
                    }
                    _ => return None,
                }
                self.eats("[")?;
                let Expr::Int(dim) = self.binary(0)? else {
                    return None;
                };
                self.eats("]")?;
                let Expr::Input(path) = expr else {
                    return None;
                };
                expr = Expr::SizeOf(path, usize::try_from(dim).ok()?);
            } else {
                return Some(expr);
            }
        }
    }

    fn taken(&mut self, expr: Expr) -> Expr {
        self.at += 1;
        expr
    }

    /// A name by itself, or a function applied.
    fn named(&mut self, name: String) -> Option<Expr> {
        if !self.eat("(") {
            return Some(match &*name {
                "L" => Expr::Input(Vec::new()),
                "True" | "true" => Expr::Int(1),
                "False" | "false" => Expr::Int(0),
                _ => Expr::Symbol(name),
            });
        }
        let mut args = Vec::new();
        while !self.eat(")") {
            let is_keyword = matches!(self.next(), Some(Token::Name(_)))
                && self.tokens.get(self.at + 1) == Some(&Token::Sign("="));
            if is_keyword {
                // Assumptions about a symbol.
                self.at += 2;
                self.binary(0)?;
            } else {
                args.push(self.binary(0)?);
            }
            if !self.eat(",") {
                self.eats(")")?;
                break;
            }
        }
        Some(match (&*name, &args[..]) {
            ("Symbol", [Expr::Text(symbol)]) => Expr::Symbol(symbol.clone()),
            ("Integer", [number @ Expr::Int(_)]) => number.clone(),
            ("Float", [Expr::Text(number), ..]) => Expr::Float(number.parse().ok()?),
            _ => Expr::Apply(name, args),
        })
    }
}

fn indexed(expr: Expr, index: Expr) -> Option<Expr> {
    let Expr::Input(mut path) = expr else {
        return None;
    };
    path.push(match index {
        Expr::Text(key) => key,
        Expr::Int(position) => position.to_string(),
        _ => return None,
    });
    Some(Expr::Input(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Known for Fixed {
        fn symbol(&self, name: &str) -> Option<Scalar> {
            (name == "s77").then_some(Scalar::Int(6))
        }

        fn input(&self, path: &[String]) -> Option<Scalar> {
            (path == ["n"]).then_some(Scalar::Int(3))
        }

        fn size(&self, path: &[String], dim: usize) -> Option<usize> {
            (path == ["d", "a"]).then_some(10 + dim)
        }
    }

    fn value(text: &str) -> Option<f64> {
        Some(Expr::parse(text)?.value(&Fixed)?.to_f64())
    }

    #[test]
    fn expressions() {
        for (text, expected) in [
            (
                "Mul(Integer(2), Symbol('s77', positive=True, integer=True))",
                12.0,
            ),
            ("FloorDiv(Symbol('s77', integer=True), Integer(-4))", -2.0),
            ("2*s77 + 1", 13.0),
            ("-s77 // 4 ** 1", -2.0),
            ("-7 % 3", 2.0),
            ("(L['d']['a'].size()[1] % 2) == 1", 1.0),
            ("L['n'] != 3 or not L['n'] < 3", 1.0),
            ("Max(1, s77, 2) - Min(4, 5)", 2.0),
            ("math.floor(s77 / 4)", 1.0),
            ("Rational(6, 3)", 2.0),
            ("2 ** 3 * 2", 16.0),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_value() {
        for text in [
            "",
            "u0",
            "1 +",
            "s77 // 0",
            "L['y'].size()[0]",
            "f(1)",
            "9223372036854775807 + 1",
            "a.b",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(Expr::parse(&"(".repeat(100_000)), None);
    }
}
