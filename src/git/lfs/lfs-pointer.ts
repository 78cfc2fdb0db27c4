/** Reads pointers of LFS: small files that stand for large ones, by their hash. */

/** Maximum size of a pointer, in bytes. */
const MAX_POINTER_BYTES = 1024

const POINTER =
  /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n/

export const isPointerSize = (bytes: number | undefined) => bytes !== undefined && bytes <= MAX_POINTER_BYTES

/** Returns the hash (SHA-256) and the size in a pointer; undefined for other files. */
export function pointerIn(content: Buffer | undefined): { oid: string; size: number } | undefined {
  if (content === undefined || !isPointerSize(content.length)) return undefined
  const [, oid, size] = POINTER.exec(content.toString('latin1')) ?? []
  return oid === undefined ? undefined : { oid, size: Number(size) }
}
