//! Markdown tables.

/// A table, printed when done.
#[derive(Debug)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads; the first column is of text, the others are of numbers.
    pub fn new(title: &str, heads: &[&str]) -> Table {
        let row = heads.iter().map(|head| (*head).to_owned()).collect();
        Table {
            title: title.to_owned(),
            rows: vec![row],
        }
    }

    /// Adds a row, and prints it so that a long run shows its progress.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        eprintln!("  {}", row.join(" | "));
        self.rows.push(row);
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("\n{}\n", self.title);
        for (i, row) in self.rows.iter().enumerate() {
            println!("| {} |", row.join(" | "));
            if i == 0 {
                println!("|---|{}", "---:|".repeat(row.len() - 1));
            }
        }
    }
}

/// Whether a target is met, as a cell.
pub fn verdict(met: bool) -> String {
    if met {
        "met".into()
    } else {
        "**missed**".into()
    }
}

/// A number of bytes, as a cell.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.3} MiB", bytes as f64 / f64::from(1 << 20))
}
