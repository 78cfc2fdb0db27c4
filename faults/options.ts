/** The options of `npm run faults`. */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { pointsOf, SAGA_NAMES } from './points.ts'

const KINDS = ['embedded', 'doubles']

export type Options = ReturnType<typeof readOptions>

/** Parses the arguments of the program. @throws TypeError that names the first invalid one */
export function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string', default: '6' },
      seconds: { type: 'string', default: '3600' },
      seed: { type: 'string', default: `${randomInt(2 ** 31)}` },
      nodes: { type: 'string', default: '1' },
      stores: { type: 'string', default: KINDS.join(',') },
      points: { type: 'string', default: SAGA_NAMES.join(',') },
    },
  })
  const number = (name: 'rounds' | 'seconds' | 'seed' | 'nodes', max: number) => {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < 1 || value > max) {
      throw new TypeError(`--${name}: must be a whole number from 1 to ${max}`)
    }
    return value
  }
  const names = (name: 'stores' | 'points', known: readonly string[]) => {
    const given = values[name].split(',')
    const unknown = given.find((one) => !known.includes(one))
    if (unknown !== undefined) throw new TypeError(`--${name}: ${unknown} is not one of ${known.join(', ')}`)
    return given
  }
  return {
    rounds: number('rounds', 10_000),
    seconds: number('seconds', 1_000_000),
    seed: number('seed', 2 ** 31),
    nodes: number('nodes', 9),
    stores: names('stores', KINDS),
    points: pointsOf(names('points', SAGA_NAMES)),
  }
}
