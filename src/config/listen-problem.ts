/** Explains a failure to listen, with the setting and the remedy. */
import { isIPv6 } from 'node:net'
import { ConfigError } from './config.ts'
import type { SettingName } from './setting-table.ts'

interface ListenAddress {
  /** The settings of the address. */
  settings: { host: SettingName; port: SettingName }
  host: string
  port: number
}

const ADVICE = '127.0.0.1 is for this machine alone, 0.0.0.0 means every interface'

/** Creates the error of a start that cannot listen on this address. */
export function listenProblem({ settings, host, port }: ListenAddress, error: unknown): ConfigError {
  const place = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  const because = (setting: SettingName, problem: string) =>
    new ConfigError(setting, problem, { cause: error })
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'EADDRINUSE':
      return because(
        settings.port,
        `is "${port}", but another program listens on ${place}: stop it, or set ${settings.port} to a free port`,
      )
    case 'EACCES':
    case 'EPERM':
      return because(
        settings.port,
        `is "${port}", but this user may not listen on it: set ${settings.port} to 1024 or more, and let a proxy listen on ${port}`,
      )
    case 'EADDRNOTAVAIL':
      return because(settings.host, `is "${host}", but this machine does not have that address: ${ADVICE}`)
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return because(settings.host, `is "${host}", but no address is known for that name: ${ADVICE}`)
    default: {
      const reason = error instanceof Error ? error.message : String(error)
      return because(settings.port, `cannot be used: listening on ${place} failed: ${reason}`)
    }
  }
}
