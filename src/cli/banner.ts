/** The lines that a server prints when it is ready: its addresses, and the next steps. */
import { existsSync } from 'node:fs'
import type { AdminPassword } from '../commands/users/site-admin.ts'
import { type Config, isShared, loadConfig } from '../config/config.ts'
import { projectFile } from '../storage/project-files.ts'
import { serverUrl } from './running-server.ts'

export interface Running {
  /** The URL on which it listens: `http://127.0.0.1:3000`. */
  listensAt: string
  /** The URL for clients. */
  url: string
  grpcAddress: string
  metricsUrl: string | undefined
  adminPassword: AdminPassword
}

type Settings = Pick<Config, 'host' | 'publicUrl' | 'tlsCert' | 'dataDir' | 'eventStoreUrl' | 'mongodbUrl'>

/** The addresses that the demo uses by default. */
const DEFAULTS = loadConfig({})

/** In a clone, npm runs the commands. An image has no sources, but `mergelog` in its PATH. */
const IN_CLONE = existsSync(projectFile('src'))

/** `isClone`: whether it runs in a clone of the repository. */
export function bannerLines(
  { listensAt, url, grpcAddress, metricsUrl, adminPassword }: Running,
  config: Settings,
  isClone = IN_CLONE,
): string[] {
  const run = isClone ? 'npm run mergelog --' : 'mergelog'
  const port = new URL(listensAt).port
  // The certificate is for the name in `url`, not for an address.
  const here = config.tlsCert === undefined ? listensAt : url
  const isEvery = config.host === '0.0.0.0' || config.host === '::'
  const { chosen, maybeLost } = adminPassword
  const stop = isShared(config) ? '' : 'stop the server and '
  const demo = isClone ? 'npm run demo' : 'mergelog demo'
  const grpcPort = /\d+$/.exec(grpcAddress)?.[0] ?? ''
  const options = [
    ...(here === serverUrl(DEFAULTS) ? [] : [`--url ${here}`]),
    ...(grpcPort === `${DEFAULTS.grpcPort}` ? [] : [`--grpc ${new URL(here).hostname}:${grpcPort}`]),
  ]
  const at = [...(isClone && options.length > 0 ? ['--'] : []), ...options].map((word) => ` ${word}`).join('')
  return [
    `Mergelog listens on ${listensAt}`,
    ...(isEvery ? [`  network  on port ${port} of all addresses of this machine`] : []),
    ...(url === listensAt ? [] : [`  clients  reach it at ${url} (PUBLIC_URL)`]),
    `  API      ${url}/api/v1      documentation ${url}/api/docs`,
    `  git      ${url}/{owner}/{repo}.git`,
    `  page     ${url}/      of a pull request ${url}/{owner}/{repo}/pulls/{index}`,
    `  gRPC     ${grpcAddress}`,
    ...(metricsUrl === undefined ? [] : [`  metrics  ${metricsUrl}`]),
    `  data     ${config.dataDir}`,
    ...(chosen === undefined
      ? []
      : [
          `  admin    user "admin", password "${chosen}" (shown only this once)`,
          `  try      curl -u admin:${chosen} ${here}/api/v1/user`,
          `  demo     ADMIN_PASSWORD=${chosen} ${demo}${at}`,
        ]),
    ...(maybeLost
      ? [
          `  admin    the password of "admin", printed by an earlier start, has not been used yet;`,
          `           if it is lost, ${stop}run, with the same settings: ${run} set-password admin`,
        ]
      : []),
  ]
}
