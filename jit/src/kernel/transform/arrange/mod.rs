//! Arguments and names in an order that does not tell how many steps a program takes.
//!
//! [`reroll`](super::reroll) leaves the arguments of all steps in the tables that they are passed in, so that the positions of
//! arguments behind them, and the names of what follows, depend on the number of steps. Here arguments that statements name
//! come before the tables, where a second table begins is told by an argument, and variables are numbered anew. Programs that
//! differ in the number of their steps alone then have one text, which is compiled once.

mod names;
mod order;
mod tables;

use crate::kernel::ir::{Expr, Kernel, Name};
use names::{Names, remove_unused};
use order::Order;
use rustc_hash::{FxHashMap, FxHashSet};
use tables::{Table, Tables, affine, element, position_of};

/// The old position of each argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arranged {
    /// Of the pointers.
    pub pointers: Vec<usize>,
    /// Of the numbers.
    pub numbers: Vec<usize>,
    /// Of the integers; those that were added have none.
    pub params: Vec<Option<usize>>,
}

/// Arranges the arguments of a kernel with loops over steps. `params` are the values of its integer arguments. `None`, and the
/// kernel is as it was, where a table is read at positions that are not told by the step.
pub fn arrange(kernel: &mut Kernel, params: &mut Vec<i64>) -> Option<Arranged> {
    let tables = Tables::of(kernel, params)?;
    let mut named = FxHashSet::default();
    for function in &mut kernel.functions {
        remove_unused(&mut function.block);
        function
            .block
            .visit_names(&mut |name| _ = named.insert(name));
    }
    let arguments = &mut kernel.arguments;
    let told = tables.told();
    let order = |count: usize, table: Table, of: fn(u32) -> Name, added: usize| {
        Order::new(count, tables.span(table), |i| named.contains(&of(i)), added)
    };
    let pointers = order(arguments.pointers.len(), Table::Pointers, Name::Pointer, 0);
    let numbers = order(arguments.numbers.len(), Table::Numbers, Name::Number, 0);
    let integers = order(params.len(), Table::Params, Name::Param, told.len());
    let values = integers.old.iter().map(|old| old.map_or(0, |i| params[i]));
    let mut values: Vec<i64> = values.collect();
    let order = |table: Table| match table {
        Table::Pointers => Some(&pointers),
        Table::Numbers => Some(&numbers),
        Table::Params => Some(&integers),
        Table::History => None,
    };
    let mut begins = FxHashMap::default();
    for (i, &(table, begin)) in told.iter().enumerate() {
        let at = integers.added + i;
        values[at] = order(table).map_or(begin, |order| order.new_of(begin));
        // A kernel has far fewer arguments than 2³².
        begins.insert((table, begin), Name::Param(at as u32));
    }
    let mut names = Names::new(&pointers, &numbers, &integers);
    for function in &mut kernel.functions {
        names.rename(&mut function.block);
        function.block.rewrite(&mut |e| {
            if let Some((table, position)) = element(e)
                && let Some((by, begin)) = affine(position)
                && let Expr::Element(both) = e
            {
                let begin = match begins.get(&(table, begin)) {
                    Some(name) => Expr::from(*name),
                    None => order(table).map_or(begin, |o| o.new_of(begin)).into(),
                };
                both.1 = position_of(by, begin);
            }
        });
    }
    let take = |order: &Order| order.old.iter().flatten().copied().collect::<Vec<usize>>();
    let (pointers, numbers) = (take(&pointers), take(&numbers));
    arguments.pointers = pointers.iter().map(|&i| arguments.pointers[i]).collect();
    arguments.numbers = numbers.iter().map(|&i| arguments.numbers[i]).collect();
    arguments.params = values.len() as u32;
    *params = values;
    Some(Arranged {
        pointers,
        numbers,
        params: integers.old,
    })
}

#[cfg(test)]
mod tests;
