/** Reads the media type of a body, and chooses that of an answer by the `Accept` header. */

/**
 * Returns the offered type that the header prefers; the first one of several equals, and also when the header is
 * missing or matches none: this is better than refusing.
 *
 * @param exactOnly types that a `*` in the header does not match
 */
export function preferredType<Type extends string>(
  accept: string | undefined,
  offered: readonly [Type, ...Type[]],
  exactOnly: readonly NoInfer<Type>[] = [],
): Type {
  const parsed = (accept ?? '').split(',').map(rangeOf)
  // The first of equal ranges counts.
  const ranges = new Map(parsed.toReversed())
  const qualityOf = (type: Type) => {
    const containing = exactOnly.includes(type) ? [type] : [type, `${type.split('/')[0]}/*`, '*/*']
    const found = containing.find((range) => ranges.has(range))
    return found === undefined ? 0 : (ranges.get(found) ?? 0)
  }
  return offered.reduce((best, next) => (qualityOf(next) > qualityOf(best) ? next : best))
}

/** A range of the header with its quality, from 0 to 1. */
function rangeOf(text: string): [range: string, quality: number] {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  return [range, weight === undefined ? 1 : Number(weight.slice(2)) || 0]
}

/** The media type in a `Content-Type` header, without parameters, in lower case. */
export const mediaTypeOf = (contentType = ''): string => contentType.split(';', 1).join().trim().toLowerCase()
