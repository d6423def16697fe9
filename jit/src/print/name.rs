//! Names in languages that are written as C is.

use super::{Language, Printer};
use crate::kernel::ir::{Copy, Local, Name, OnDevice, Part};

impl Printer<'_> {
    pub(super) fn name(&mut self, name: Name) {
        let (stem, number) = match name {
            Name::Param(i) => ("P", i),
            Name::Pointer(i) => ("p", i),
            Name::Divisor(i) => ("D", i),
            Name::Number(i) => ("s", i),
            Name::Bits(i) => ("a.s", i),
            Name::Base(i) => ("b", i),
            Name::PipelinedBase(i) => ("late_b", i),
            Name::Loop(v) => ("i", v.0),
            Name::Streams(i) => ("t", i),
            Name::Left(i) => ("left", i),
            Name::Argument(i) => ("x", i),
            Name::Of(part, value, _) => (stem(part), value),
            Name::Local(Local::Scratch) if self.language == Language::Cuda => {
                return self.out.push_str("a.scratch");
            }
            Name::Local(local) => return self.out.push_str(spelled(local)),
            Name::OnDevice(local) => return self.out.push_str(spelled_on_device(local)),
        };
        self.out.push_str(stem);
        self.number(number.into());
        match name {
            Name::Of(_, _, Copy::Number(copy)) => {
                self.out.push('_');
                self.number(copy.into());
            }
            Name::Of(_, _, Copy::Register) => self.out.push('_'),
            _ => {}
        }
    }

    /// A number without a sign.
    pub(super) fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        // The remainder is a digit.
        self.out.push(char::from(b'0' + (number % 10) as u8));
    }
}

fn stem(part: Part) -> &'static str {
    match part {
        Part::Value => "v",
        Part::Accumulator => "a",
        Part::Places => "q",
        Part::Result => "r",
        Part::Total => "sum",
        Part::Low => "low",
        Part::Turn => "turn",
        Part::Best => "w",
        Part::Place => "y",
        Part::Wide | Part::Run => "h",
        Part::Nans => "n",
        Part::Better => "t",
        Part::Carry => "c",
        Part::Owed => "owed",
        Part::Partial => "e",
        Part::Prefix | Part::PartialPlaces => "f",
        Part::Row => "k",
        Part::Staged => "g",
        Part::Normal => "d",
        Part::Loaded => "g",
        Part::Kept => "h",
        Part::Stored => "o",
        Part::Packed => "n",
        Part::Pipelined => "late_v",
        Part::Positions => "at",
        Part::Drawn => "drawn",
        Part::Live => "x",
        Part::Moved => "t",
        // The names of shared memory are in the compiled code.
        Part::Shared | Part::Turned => "w",
        Part::SharedPlaces => "y",
        Part::BlockFolds => "z",
        Part::Before => "before",
        Part::About => "about",
        Part::PieceMean => "mean",
        Part::Chunk => "chunk",
        Part::Greatest => "most",
        Part::Exponent => "exponent",
        Part::Own => "own",
        Part::WarpFolds => "folds",
        Part::Fold => "fold",
        Part::CarryFold => "on_carry",
        Part::Carried => "last",
        Part::History => "steps",
        Part::Stepped => "of_step",
    }
}

fn spelled(local: Local) -> &'static str {
    match local {
        Local::Arguments => "a",
        Local::Numbers => "a->scalar",
        Local::Pointers => "a->ptr",
        Local::Params => "a->param",
        Local::Scratch => "a->scratch",
        Local::Memory => "local",
        Local::Begin => "begin",
        Local::End => "end",
        Local::Unit => "u",
        Local::First => "first",
        Local::Row => "row",
        Local::Piece => "part",
        Local::Low => "lo",
        Local::High => "hi",
        Local::ChunkLow => "c0",
        Local::ChunkHigh => "c1",
        Local::Column => "j",
        Local::Stop => "stop",
        Local::Walked => "w",
        Local::Vector => "z",
        Local::Lane => "l",
        Local::Count => "m",
        Local::From => "from",
        Local::To => "to",
        Local::Elements => "g",
        Local::Place => "q",
        Local::Index => "c",
        Local::Other => "k",
        Local::Element => "x",
        Local::Position => "i",
        Local::Length => "n",
        Local::LengthVector => "n_",
        Local::Difference => "d",
        Local::Sum => "s",
        Local::Mask => "t",
        Local::TileRow => "r0",
        Local::TileRowEnd => "r1",
        Local::TileRows => "rows",
        Local::TileColumn => "jb",
        Local::TileColumnEnd => "je",
        Local::Thread => "threadIdx.x",
        Local::Block => "ft_block",
        Local::Chunk => "u",
        Local::RowNumber => "row",
        Local::Chunks => "walked",
        Local::Rows => "rest",
        Local::Shift => "shift",
        Local::Head => "h",
        Local::OnRow => "on",
        Local::Held => "k",
        Local::Later => "r",
        Local::Pipelined => "late",
        Local::Step => "step",
    }
}

fn spelled_on_device(local: OnDevice) -> &'static str {
    match local {
        OnDevice::InRow => "t",
        OnDevice::Across => "tx",
        OnDevice::Group => "ty",
        OnDevice::Live => "live",
        OnDevice::Counter => "mine",
        OnDevice::Drawn => "drawn",
        OnDevice::RowBlock => "block",
        OnDevice::Pieces => "pieces",
        OnDevice::Distance => "o",
        OnDevice::Taken => "taken",
        OnDevice::Run => "run",
        OnDevice::FirstHeld => "base",
        OnDevice::FirstOfTile => "first",
        OnDevice::Counted => "counted",
        OnDevice::FirstEdge => "first",
        OnDevice::LastEdge => "last",
        OnDevice::Copy => "turn",
        OnDevice::All => "all",
        OnDevice::Scale => "scale",
        OnDevice::Most => "most",
        OnDevice::Around => "about",
        OnDevice::Slot => "slot",
        OnDevice::Folds => "folds",
        OnDevice::Cell => "cell",
        OnDevice::InTileRow => "tr",
        OnDevice::InTileColumn => "tc",
        OnDevice::ReadRow => "r",
        OnDevice::Left => "x",
        OnDevice::Right => "y",
    }
}
