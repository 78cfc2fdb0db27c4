import { ConfigError, loadConfig } from '../src/config/config.ts'

/** The error of a start in this environment. */
export function refusal(env: NodeJS.ProcessEnv): ConfigError {
  try {
    loadConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error
    throw error
  }
  throw new Error(`accepted: ${JSON.stringify(env)}`)
}
