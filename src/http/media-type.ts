/** Chooses the media type of an answer by the `Accept` header. */

/**
 * The offered type that the header prefers; the first one of several equals. The first offered type is also the
 * answer when the header is missing or matches no offered type: this is better than refusing.
 *
 * @param exactOnly types that a `*` in the header does not match
 */
export function preferredType<Type extends string>(
  accept: string | undefined,
  offered: readonly [Type, ...Type[]],
  exactOnly: readonly NoInfer<Type>[] = [],
): Type {
  const ranges = (accept ?? '').split(',').map(rangeOf)
  const [first, ...others] = offered.map((type) => ({
    type,
    quality: qualityOf(exactOnly.includes(type) ? [type] : rangesOf(type), ranges),
  }))
  if (first === undefined) return offered[0]
  return others.reduce((best, next) => (next.quality > best.quality ? next : best), first).type
}

interface Range {
  type: string
  quality: number
}

function rangeOf(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  return { type, quality: weight === undefined ? 1 : Number(weight.slice(2)) || 0 }
}

/** The ranges that contain a type, the most specific first. */
const rangesOf = (type: string) => [type, `${type.split('/')[0]}/*`, '*/*']

/** The quality of the first of these ranges that the header contains; 0 when it contains none. */
function qualityOf(wantedRanges: readonly string[], ranges: readonly Range[]): number {
  for (const wanted of wantedRanges) {
    const range = ranges.find((candidate) => candidate.type === wanted)
    if (range !== undefined) return range.quality
  }
  return 0
}
