//! Takes kernels and modules out of what distributions pack them in.
//!
//! LZ4 and gzip are undone here; for xz and zstd the tools are asked, which every distribution that
//! packs that way has.

use crate::fault::{Doing, Fault};
use crate::lab::{Room, ToolRun};
use std::io::Read;

/// The most that a packed file may become, in bytes.
const LIMIT: u64 = 1 << 30;

/// The most that one block of the LZ4 legacy format may become.
///
/// Source: `lz4_Frame_format.md` of LZ4, "Legacy frame".
const LZ4_BLOCK: usize = 8 << 20;

const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Unpacks `packed`; returns the bytes themselves when they are not packed.
///
/// # Errors
/// Broken data, data that becomes larger than 1 GiB, or a format whose tool is not there.
pub(crate) fn unpack(packed: Vec<u8>, room: &Room) -> Result<Vec<u8>, Fault> {
    unpack_up_to(LIMIT, packed, room)
}

fn unpack_up_to(limit: u64, packed: Vec<u8>, room: &Room) -> Result<Vec<u8>, Fault> {
    if let Some(blocks) = packed.strip_prefix(LZ4_LEGACY) {
        lz4_legacy(blocks, limit)
    } else if packed.starts_with(GZIP) {
        gzip(&packed, limit)
    } else if packed.starts_with(XZ) {
        ask("xz", &packed, limit, room)
    } else if packed.starts_with(ZSTD) {
        ask("zstd", &packed, limit, room)
    } else {
        Ok(packed)
    }
}

/// Says of data in any format that it becomes too large.
fn too_large(format: &str, limit: u64) -> Fault {
    Fault::machine(format!(
        "the {format} data becomes larger than {limit} bytes, the most that surtax unpacks"
    ))
    .hint("name another file, or unpack it yourself if you trust it")
}

fn lz4_legacy(mut blocks: &[u8], limit: u64) -> Result<Vec<u8>, Fault> {
    let broken = || Fault::machine("the LZ4 data ends within a block");
    let mut plain = Vec::new();
    while !blocks.is_empty() {
        let (length, rest) = blocks.split_first_chunk().ok_or_else(broken)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| broken())?;
        let (block, rest) = rest.split_at_checked(length).ok_or_else(broken)?;
        plain.extend(lz4_flex::block::decompress(block, LZ4_BLOCK).doing("read an LZ4 block")?);
        if plain.len() as u64 > limit {
            return Err(too_large("LZ4", limit));
        }
        blocks = rest;
    }
    Ok(plain)
}

fn gzip(packed: &[u8], limit: u64) -> Result<Vec<u8>, Fault> {
    let mut plain = Vec::new();
    let decoder = flate2::read::GzDecoder::new(packed);
    decoder.take(limit.saturating_add(1)).read_to_end(&mut plain).doing("read gzip data")?;
    if plain.len() as u64 > limit { Err(too_large("gzip", limit)) } else { Ok(plain) }
}

fn ask(tool: &str, packed: &[u8], limit: u64, room: &Room) -> Result<Vec<u8>, Fault> {
    let plain =
        ToolRun { input: Some(packed), ..ToolRun::new(&[tool, "-dc"]) }.run_up_to(limit, room)?;
    plain.ok_or_else(|| too_large(tool, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lz4_blocks_are_joined() {
        let mut packed = Vec::new();
        for part in [b"first ".repeat(50), b"second".to_vec()] {
            let block = lz4_flex::block::compress(&part);
            packed.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
            packed.extend(block);
        }
        let plain = lz4_legacy(&packed, LIMIT).unwrap();
        assert_eq!(plain.len(), 306);
        assert!(plain.ends_with(b"first second"));
    }

    #[test]
    fn lz4_data_that_ends_early_is_refused() {
        assert!(lz4_legacy(&[9, 0], LIMIT).is_err());
        assert!(lz4_legacy(&[9, 0, 0, 0, 1], LIMIT).is_err());
        assert!(lz4_legacy(&[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], LIMIT).is_err());
    }

    /// Data of one block in the LZ4 legacy format.
    fn lz4(plain: &[u8]) -> Vec<u8> {
        let block = lz4_flex::block::compress(plain);
        let length = u32::try_from(block.len()).unwrap().to_le_bytes();
        [LZ4_LEGACY, &length[..], &block[..]].concat()
    }

    #[test]
    fn data_that_becomes_too_large_is_refused_in_every_format_and_never_cut() {
        let state = tempfile::tempdir().unwrap();
        let lab = crate::lab::tests::lab(state.path());
        let room = lab.room("unpack").unwrap();
        let plain = vec![0_u8; 1 << 16];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&plain).unwrap();
        let mut packed = vec![("LZ4", lz4(&plain)), ("gzip", gzip.finish().unwrap())];
        for tool in ["xz", "zstd"] {
            if crate::lab::find(tool).is_some() {
                let argv = [tool, "-c"];
                let pack = ToolRun { input: Some(&plain), ..ToolRun::new(&argv) };
                packed.push((tool, pack.run(&room).unwrap()));
            }
        }
        for (format, bytes) in packed {
            let whole = unpack_up_to(1 << 16, bytes.clone(), &room).unwrap();
            assert!(whole == plain, "{format}: as large as it may be");
            let fault = unpack_up_to((1 << 16) - 1, bytes, &room).unwrap_err();
            let says = format!("the {format} data becomes larger than 65535 bytes");
            assert!(fault.message.starts_with(&says), "{fault}");
            assert!(fault.hint.is_some(), "{fault}");
        }
    }
}
