//! Archives as far as `.npz` files need them: entries that are stored or deflated (PKWARE,
//! APPNOTE.TXT 6.3.10; found by the central directory), and files of stored ones.
//!
//! Absent: encryption, archives of 4 GiB and more (ZIP64).

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
/// Bytes of the end record without its comment, and of the fixed parts of headers.
const END_BYTES: usize = 22;
const CENTRAL_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
/// The last one or two bytes of a number that says: see ZIP64.
const MANY: u32 = u32::MAX;

fn u16_at(file: &[u8], at: usize) -> Result<usize, String> {
    let bytes = file.get(at..at + 2).ok_or("it is cut off")?;
    Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
}

fn u32_at(file: &[u8], at: usize) -> Result<u32, String> {
    let bytes = file.get(at..at + 4).ok_or("it is cut off")?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn place(file: &[u8], at: usize) -> Result<usize, String> {
    match u32_at(file, at)? {
        MANY => Err("archives of 4 GiB and more are not read".to_owned()),
        number => Ok(number as usize),
    }
}

/// Names and contents.
pub(super) fn entries(file: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let last = file.len().checked_sub(END_BYTES).ok_or("it is not an .npz file")?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let end = (first..=last).rev().find(|at| file[*at..].starts_with(&END)).ok_or("it is not an .npz file")?;
    let (count, mut at) = (u16_at(file, end + 10)?, place(file, end + 16)?);
    let mut entries = Vec::new();
    for _ in 0..count {
        if !file.get(at..).is_some_and(|rest| rest.starts_with(&CENTRAL)) {
            return Err("its directory is damaged".to_owned());
        }
        let lens = [u16_at(file, at + 28)?, u16_at(file, at + 30)?, u16_at(file, at + 32)?];
        let name = file.get(at + CENTRAL_BYTES..at + CENTRAL_BYTES + lens[0]).ok_or("it is cut off")?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| "the name of an entry is not text")?;
        let content = content(file, at).map_err(|reason| format!("{name}: {reason}"))?;
        entries.push((name, content));
        at += CENTRAL_BYTES + lens.iter().sum::<usize>();
    }
    Ok(entries)
}

/// The content of the entry whose header in the directory is here.
fn content(file: &[u8], at: usize) -> Result<Vec<u8>, String> {
    if u16_at(file, at + 8)? & 1 == 1 {
        return Err("it is encrypted".to_owned());
    }
    let (method, crc) = (u16_at(file, at + 10)?, u32_at(file, at + 16)?);
    let (packed, size, local) = (place(file, at + 20)?, place(file, at + 24)?, place(file, at + 42)?);
    let start = local + LOCAL_BYTES + u16_at(file, local + 26)? + u16_at(file, local + 28)?;
    let packed = file.get(start..start + packed).ok_or("it is cut off")?;
    let content = match method {
        0 => packed.to_vec(),
        8 => miniz_oxide::inflate::decompress_to_vec_with_limit(packed, size).map_err(|error| error.to_string())?,
        other => return Err(format!("compression method {other}, expected 0 (stored) or 8 (deflated)")),
    };
    if content.len() != size || crc32(&content) != crc {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(content)
}

/// An archive of stored entries.
pub(super) fn file(entries: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Vec<u8>, String> {
    let (mut file, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for (name, content) in entries {
        let small = |number: usize| {
            u32::try_from(number).ok().filter(|n| *n != MANY).ok_or("archives of 4 GiB and more are not written")
        };
        let (at, size) = (small(file.len())?, small(content.len())?);
        let name_len = u16::try_from(name.len()).map_err(|_| "a name is too long")?;
        // Version 2.0, names in UTF-8, stored, 1980-01-01 0:00.
        let mut about = Vec::new();
        for number in [20_u16, 1 << 11, 0, 0, 0x21] {
            about.extend(number.to_le_bytes());
        }
        for number in [crc32(&content), size, size] {
            about.extend(number.to_le_bytes());
        }
        about.extend(name_len.to_le_bytes());
        about.extend([0; 2]);
        file.extend(LOCAL);
        file.extend(&about);
        file.extend(name.as_bytes());
        file.extend(content);
        directory.extend(CENTRAL);
        directory.extend(20_u16.to_le_bytes());
        directory.extend(&about);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
        count = count.checked_add(1).ok_or("more entries than an archive holds")?;
    }
    let at = u32::try_from(file.len()).map_err(|_| "archives of 4 GiB and more are not written")?;
    file.extend(&directory);
    file.extend(END);
    file.extend([0; 4]);
    file.extend(count.to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(at.to_le_bytes());
    file.extend([0; 2]);
    Ok(file)
}

/// CRC-32 (ISO 3309), four bits at a time.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 16] = {
        let (mut table, mut i) = ([0; 16], 0);
        while i < 16 {
            let (mut value, mut bit) = (i as u32, 0);
            while bit < 4 {
                value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    };
    let step = |crc: u32, nibble: u32| TABLE[((crc ^ nibble) & 15) as usize] ^ crc >> 4;
    !bytes.iter().fold(!0, |crc, byte| step(step(crc, u32::from(*byte)), u32::from(*byte >> 4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn damaged_archives_are_refused_and_never_panic() {
        let whole = file([("a.npy".to_owned(), vec![1, 2, 3]), ("b".to_owned(), Vec::new())]).expect("small");
        assert_eq!(entries(&whole).expect("ours").len(), 2);
        for end in 0..whole.len() {
            assert!(entries(&whole[..end]).is_err(), "cut off after {end} bytes");
        }
        for position in 0..whole.len() {
            for byte in [0, 1, 8, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[position] = byte;
                drop(entries(&damaged));
            }
        }
        let mut other = whole;
        other[LOCAL_BYTES + 5] = 7;
        assert_eq!(entries(&other), Err("a.npy: its checksum is wrong".to_owned()));
    }
}
