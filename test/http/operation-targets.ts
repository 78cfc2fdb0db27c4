/** A successful request for each operation of the API's documentation, from the route table. */
import { ROWS, statusesIn } from '../auth/route-rows.ts'
import { type Call, type Place, ROLES, type World } from '../auth/route-world.ts'
import { passwordOf } from '../server-template.ts'

/** The name of an operation in the table of routes. */
const routeOf = (name: string) => {
  const [method = '', path = ''] = name.split(' ')
  return `${method.toUpperCase()} ${path.replaceAll('{*}', '*').replaceAll(/\{(.+?)\}/g, ':$1')}`
}

/** The requester and the request. */
export interface Target {
  login: string
  call: Call
}

export const PASSWORD = 'post /api/v1/user/password'

/** For operations whose row does not lead to success, or leads to a target that other requests need. */
const INSTEAD: Readonly<Record<string, (place: Place, world: World) => Promise<Partial<Target>>>> = {
  [PASSWORD]: async (_place, world) => {
    const login = await world.newUser()
    const body = { old_password: passwordOf(login), new_password: 'another password' }
    return { login, call: { body } }
  },
  'get /api/v1/repos/{owner}/{repo}/pulls/{index}/merge': mergedPull,
  'get /api/v1/repos/{owner}/{repo}/pulls/{index}/evidence': mergedPull,
  'get /sdk/upgrade/v1beta1/upgraded_consensus_state/{last_height}': async ({ must, next }) => {
    const last_height = next()
    const body = { upgraded_consensus_state: 'AA==' }
    await must('admin', 'PUT', `/admin/upgrade/consensus_states/${last_height}`, body)
    return { call: { path: { last_height } } }
  },
  'delete /api/v1/admin/upgrade/plan': async ({ must, next }) => {
    await must('admin', 'PUT', '/admin/upgrade/plan', { name: `v${next()}`, height: '10', info: '' })
    return {}
  },
  // The request may rename the repository.
  'patch /api/v1/repos/{owner}/{repo}': async ({ another }) => ({
    call: { path: await another(), body: { private: true } },
  }),
}

/** Reads a merged pull request. */
export async function mergedPull({ make, must, base }: Place): Promise<Partial<Target>> {
  const index = await make.pull()
  await must('alice', 'POST', `${base}/pulls/${index}/merge`, { Do: 'merge' })
  return { call: { path: { index } } }
}

const roles = [ROLES.admin, ROLES['site admin'], ...Object.values(ROLES)]

/** A role with success, by the statuses of the roles: preferably an admin of the repository. */
function whoSucceeds(statuses: readonly number[] = []): string | null | undefined {
  const succeeds = Object.values(ROLES).filter((_, i) => (statuses[i] ?? 0) < 300)
  return roles.find((login) => succeeds.includes(login))
}

/** Creates targets in this world. */
export async function targetsIn(world: World) {
  const ofOrganization = await world.place('private organization')

  /** Creates a fresh target for an operation, and a user with permission to change it. */
  async function targetOf(name: string, wanted: Place): Promise<Target> {
    const row = ROWS[routeOf(name)]
    if (row === undefined) throw new Error(`${name} has no row in test/auth/route-rows.ts`)
    const kinds = statusesIn(row.who)
    // Only repositories of an organization have teams.
    const isOfOrganization = whoSucceeds(kinds[0]) === undefined && whoSucceeds(kinds[2]) !== undefined
    const place = isOfOrganization ? ofOrganization : wanted
    const other = await INSTEAD[name]?.(place, world)
    const call = other?.call ?? (await row.call?.(place, world)) ?? {}
    return {
      login: other?.login ?? whoSucceeds(kinds[isOfOrganization ? 2 : 0]) ?? ROLES.admin,
      call: { ...call, path: { owner: place.owner, repo: place.repo, ...call.path } },
    }
  }

  return targetOf
}
