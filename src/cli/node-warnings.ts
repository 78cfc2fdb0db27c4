/** Hides warnings of Node that do not help an operator. Start errors are one line. */

/** Warning about an IP address as TLS server name: EventStoreDB's driver sends it and checks certificates by it. */
const ADDRESS_AS_NAME = 'DEP0123'

/** Shows all other warnings as Node does. */
export function hideKnownWarnings(): void {
  for (const show of process.listeners('warning')) {
    process.off('warning', show)
    process.on('warning', (warning) => {
      if (!('code' in warning) || warning.code !== ADDRESS_AS_NAME) show(warning)
    })
  }
}
