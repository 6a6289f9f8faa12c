//! Where in a document a value belongs: where it stands, else in the table that is there for it, else in a new one at the end.

use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value};

use super::super::space::Change;
use super::{same_key, value};

/// Makes one change; `preset` is what the document is laid over.
///
/// # Errors
/// What stands in its way.
pub fn change(
    document: &mut DocumentMut,
    preset: &DocumentMut,
    change: &Change,
    note: &str,
) -> Result<(), String> {
    // Without the file's own lines the preset's would hold again: there it is to say `false`.
    let is_below = stands(preset.as_table(), &change.path);
    if change.value == "false" && !is_below && remove(document.as_table_mut(), &change.path) {
        return Ok(());
    }
    let cannot = || format!("`{}` stands in a place where it cannot be changed", change.key());
    let comment = Comment { was: format!("was {}", change.was), note };
    let new = value(&change.value)?;
    match &change.path[..] {
        // An edge that only the preset has is written as edges are: `"a -> b" = { queue = 64 }`.
        [edges, edge, key] if edges == "edges" && !has(document.as_table(), edges, edge) => {
            let mut inner = toml_edit::InlineTable::new();
            inner.insert(key, new);
            put(document.as_table_mut(), &change.path[..1], edge, Value::InlineTable(inner), &comment)
        }
        [tables @ .., last] => put(document.as_table_mut(), tables, last, new, &comment),
        [] => None,
    }
    .ok_or_else(cannot)
}

/// What is said behind a changed line.
struct Comment<'a> {
    /// What the value was.
    was: String,
    /// What was measured: the same behind all lines.
    note: &'a str,
}

fn has(table: &dyn TableLike, outer: &str, inner: &str) -> bool {
    table.get(outer).and_then(Item::as_table_like).is_some_and(|table| find(table, inner).is_some())
}

/// Whether something stands at a path.
fn stands(table: &dyn TableLike, path: &[String]) -> bool {
    let [first, rest @ ..] = path else { return true };
    let item = find(table, first).and_then(|key| table.get(&key));
    match (rest.is_empty(), item.and_then(Item::as_table_like)) {
        (true, _) => item.is_some(),
        (false, inner) => inner.is_some_and(|inner| stands(inner, rest)),
    }
}

/// The key of a table that means this one.
fn find(table: &dyn TableLike, name: &str) -> Option<String> {
    table
        .iter()
        .map(|(key, _)| key.to_owned())
        .find(|key| key == name || name.contains("->") && same_key(key, name))
}

/// Takes a thing away that this file itself declares; `false` where it comes from elsewhere.
fn remove(table: &mut dyn TableLike, path: &[String]) -> bool {
    let [first, rest @ ..] = path else { return false };
    let Some(key) = find(table, first) else { return false };
    if rest.is_empty() {
        return table.remove(&key).is_some();
    }
    let Some(inner) = table.get_mut(&key).and_then(Item::as_table_like_mut) else { return false };
    remove(inner, rest)
}

/// Puts a value into a table, below the tables on its way.
fn put(table: &mut Table, tables: &[String], last: &str, new: Value, comment: &Comment<'_>) -> Option<()> {
    let Some((first, rest)) = tables.split_first() else {
        return leaf(table, last, new, comment);
    };
    match find(table, first) {
        Some(key) => match table.get_mut(&key)? {
            Item::Table(inner) => put(inner, rest, last, new, comment),
            // `nic = { threads = 8 }`: changed within, the comment behind the line.
            Item::Value(Value::InlineTable(inner)) => {
                within(inner, rest, last, new)?;
                let was = format!("{last} {}", comment.was);
                behind(table.get_mut(&key)?.as_value_mut()?, &Comment { was, note: comment.note });
                Some(())
            }
            // `"a -> b" = "inline"` becomes a table.
            Item::Value(old) if rest.is_empty() => {
                let decor = old.decor().clone();
                let mut inner = toml_edit::InlineTable::new();
                inner.insert(last, new);
                let mut made = Value::InlineTable(inner);
                *made.decor_mut() = decor;
                behind(&mut made, comment);
                *old = made;
                Some(())
            }
            _ => None,
        },
        None => {
            added(table, first, rest, last, new, comment);
            Some(())
        }
    }
}

/// The value itself, where it stands or as a new line.
fn leaf(table: &mut Table, name: &str, mut new: Value, comment: &Comment<'_>) -> Option<()> {
    let key = find(table, name).unwrap_or_else(|| name.to_owned());
    match table.get_mut(&key) {
        Some(Item::Value(old)) => {
            *new.decor_mut() = old.decor().clone();
            behind(&mut new, comment);
            *old = new;
        }
        // `[pools.nic.wait]` as a table of its own, or dotted keys: gone, the value stands in its place.
        Some(item) if item.is_table() => {
            behind(&mut new, comment);
            *item = Item::Value(new);
            table.key_mut(&key)?.leaf_decor_mut().set_suffix(" ");
        }
        Some(_) => return None,
        None => {
            behind(&mut new, comment);
            table.insert(&key, Item::Value(new));
        }
    }
    Some(())
}

/// Within an inline table: no comment can stand there.
fn within(table: &mut toml_edit::InlineTable, tables: &[String], last: &str, mut new: Value) -> Option<()> {
    let Some((first, rest)) = tables.split_first() else {
        let key = find(table, last).unwrap_or_else(|| last.to_owned());
        match table.get_mut(&key) {
            Some(old) => {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            None => {
                // The blank before the brace belongs to whatever comes last.
                if let Some((_, last)) = table.iter_mut().last() {
                    if let Some(end) = last.decor().suffix().cloned() {
                        new.decor_mut().set_suffix(end);
                    }
                    last.decor_mut().set_suffix("");
                }
                new.decor_mut().set_prefix(" ");
                table.insert(&key, new);
            }
        }
        return Some(());
    };
    if find(table, first).is_none() {
        table.insert(first, Value::InlineTable(toml_edit::InlineTable::new()));
    }
    let key = find(table, first)?;
    within(table.get_mut(&key)?.as_inline_table_mut()?, rest, last, new)
}

/// A table that the file does not have: a line `nic.threads = 2` in the one above if that stands there, else a table of its own at the
/// end.
fn added(table: &mut Table, first: &str, rest: &[String], last: &str, mut new: Value, comment: &Comment<'_>) {
    behind(&mut new, comment);
    let is_root =
        table.position().is_none_or(|position| position == 0) && !table.is_dotted() && first != last;
    let names: Vec<&str> = rest.iter().map(String::as_str).collect();
    let mut inner = Table::new();
    inner.insert(last, Item::Value(new));
    // From the inside out.
    for name in names.iter().rev() {
        let mut outer = Table::new();
        inner.set_dotted(!is_root || names.len() > 1);
        inner.set_implicit(false);
        outer.set_implicit(true);
        outer.insert(name, Item::Table(inner));
        inner = outer;
    }
    if !is_root {
        inner.set_dotted(true);
    }
    table.insert_formatted(&Key::new(first), Item::Table(inner));
}

/// A comment behind a value. The user's own comes first and stays; what an earlier run said goes; changes of this run that stand in
/// the same line are told together.
fn behind(value: &mut Value, comment: &Comment<'_>) {
    const MARK: &str = "tune: ";
    let old = value.decor().suffix().and_then(|raw| raw.as_str()).unwrap_or_default().trim();
    let (own, earlier) = old.split_once(MARK).unwrap_or((old, ""));
    let own = own.trim_start_matches('#').trim_end_matches(['#', ' ', ';']).trim();
    let together = earlier.strip_suffix(comment.note).map(|was| was.trim_end_matches("; "));
    let was = together.map_or_else(|| comment.was.clone(), |was| format!("{was}, {}", comment.was));
    let own = if own.is_empty() { String::new() } else { format!("{own}; ") };
    let text = format!("  # {own}{MARK}{was}; {}", comment.note);
    if value.decor().prefix().is_none() {
        value.decor_mut().set_prefix(" ");
    }
    value.decor_mut().set_suffix(text);
}
